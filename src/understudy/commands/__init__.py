"""The commands, one file each. They import what they need when they are called."""
