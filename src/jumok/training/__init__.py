"""How a model learns: the loop, what it minimises, and checkpoints to go on from."""
