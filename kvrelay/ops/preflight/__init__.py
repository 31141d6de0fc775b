"""kvrelay preflight: what would stop a deployment, found before anything is created."""
