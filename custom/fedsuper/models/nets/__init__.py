"""One file a net: its settings, and its module where no library has it."""
