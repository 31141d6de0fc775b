"""kvrelay verify on a cluster: what small commands in its pods show of how the KV cache travels."""
