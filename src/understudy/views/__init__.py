"""What the live page and the report of a study show alike: who came, who represented whom."""
