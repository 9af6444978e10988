"""Where cold sessions lie as bytes (`ports.StateStore`).

``memory.py`` keeps them in the process; ``local.py`` on this machine's disk, with the offset of the
state topic that they stand for, so that a restart reads only the difference. ``rocks.py`` is
RocksDB as we set it, ``origin.py`` what a store was written for, ``folder.py`` where it lies and
whose it is.
"""

from .folder import state_folder
from .local import LocalStore
from .memory import MemoryStore
from .origin import Origin

__all__ = ["LocalStore", "MemoryStore", "Origin", "state_folder"]
