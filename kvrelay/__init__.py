"""kvrelay: one language model on Amazon EKS, prefill and decode on separate GPU nodes."""
