"""History and live for every frontend: the topics read into a database, and served from it.

``feed.py`` reads the topics into ``store.py``; what a poll changed leaves as a `changes.Committed`
once its transaction stands. Requests are answered from the store alone.
"""
