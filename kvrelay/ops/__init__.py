"""Commands against a running endpoint, a real account and a real cluster."""
