"""Prefill and decode on this machine's CPU: the environment, a tiny model, and the running app."""
