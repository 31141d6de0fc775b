"""What is deployed and destroyed together."""
