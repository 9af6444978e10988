"""What is about the read model holds on SQLite and on PostgreSQL: such tests run on both.

A test that is about SQLite's own file says so (`sqlite`). Where no PostgreSQL can be started the
second run of each is skipped and says why; under ``CI=true`` it fails.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from sqlalchemy import create_engine, text

from pipeline.gateway.store import Store
from pipeline.simulate import fleet
from tests.pipeline.gateway import stage as stages
from tests.pipeline.gateway.asking import Client
from tests.postgres import NoPostgres, no_postgres, postgres

ON_BOTH = frozenset(
    f"test_{name}"
    for name in ("api", "bad_input", "export", "feed", "pages", "queries", "search", "security",
                 "store", "streams", "surface_at")
)  # fmt: skip


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    alone = metafunc.definition.get_closest_marker("sqlite") is not None
    if metafunc.module.__name__.rpartition(".")[2] in ON_BOTH and not alone:
        metafunc.parametrize("database", ["sqlite", "postgres"], indirect=True, scope="module")


@pytest.fixture(scope="session")
def server_url() -> Iterator[str]:
    with ExitStack() as ends:
        try:
            url = ends.enter_context(postgres())
        except NoPostgres as reason:
            no_postgres(reason)
        yield url


@pytest.fixture(autouse=True, scope="module")
def database(request: pytest.FixtureRequest) -> Iterator[None]:
    """Each folder has a schema of its own. As wide as the widest stage that reads into it."""
    if getattr(request, "param", "sqlite") == "sqlite":
        yield
        return
    url: str = request.getfixturevalue("server_url")
    engine = create_engine(url.replace("postgresql", "postgresql+psycopg"))
    made: list[Store] = []

    def database_in(folder: Path) -> str:
        schema = "t" + hashlib.sha1(str(folder).encode()).hexdigest()
        with engine.begin() as connection:
            connection.execute(text(f"CREATE SCHEMA IF NOT EXISTS {schema}"))
            connection.execute(text("CREATE EXTENSION IF NOT EXISTS pg_trgm SCHEMA public"))
        return f"{url}?options=-csearch_path%3D{schema},public"

    def remembered(store: Store, url: str) -> None:
        make(store, url)
        made.append(store)

    make = Store.__init__
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stages, "database_in", database_in)
        patch.setattr(Store, "__init__", remembered)
        yield
    for store in made:
        store.close()
    engine.dispose()


@pytest.fixture(scope="module")
def stage(database: None, tmp_path_factory: pytest.TempPathFactory) -> stages.Stage:
    """Fourteen sessions, read."""
    stage = stages.Stage(tmp_path_factory.mktemp("gateway"))
    stage.play(fleet(31, 14, events=90))
    return stage


@pytest.fixture
def client(stage: stages.Stage) -> Client:
    """A person at this machine."""
    return Client(stage)
