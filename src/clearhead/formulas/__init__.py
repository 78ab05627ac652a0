"""Pure functions on tensors: no module, no config object, no state."""
