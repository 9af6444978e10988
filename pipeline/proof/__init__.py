"""What ``verify`` is made of: records as digests, one partition under proof, the differences."""
