"""kvrelay residue: what a deployment left in the account, what it costs, and how it goes."""
