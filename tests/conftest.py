"""How many examples a property test tries.

`make test` runs `suite`, `make laws` says `--hypothesis-profile=laws`, and `quick` is for the
hand. A test that sets `max_examples` itself is deaf to all three.
"""

from hypothesis import HealthCheck, settings

# Time is no verdict on a shared machine: no deadline, and slow data is not an error.
_COMMON = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True)

settings.register_profile("suite", _COMMON, max_examples=300)
settings.register_profile("laws", _COMMON, max_examples=10_000)
settings.register_profile("quick", _COMMON, max_examples=25)
settings.load_profile("suite")
