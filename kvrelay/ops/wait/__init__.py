"""kvrelay wait: a deployment followed to its first token, phase by phase, with the cause when one is late."""
