"""The only epoch loop, the losses it minimises, seeding, devices and checkpoints."""
