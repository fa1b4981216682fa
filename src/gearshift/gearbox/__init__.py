"""The gearbox: which gear keeps a pipeline's promise at the least cost, from measurements alone. Pure."""
