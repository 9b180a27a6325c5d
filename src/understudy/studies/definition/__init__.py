"""From a TOML file or Python to cells."""
