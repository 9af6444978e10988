"""The ports over kafka-python: `source`, `sink`, `reader`, `admin`; `client` is what they share."""
