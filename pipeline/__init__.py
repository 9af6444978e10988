"""The outside world around the folds: Kafka, disks, clocks, the command line."""
