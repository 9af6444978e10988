"""What reads figures of logs, references and queries for people: files and cards in, values out."""
