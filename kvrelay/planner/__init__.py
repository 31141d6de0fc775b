"""Does it fit, does prefill/decode pay, what does it cost, when is it ready: plain arithmetic on dated data."""
