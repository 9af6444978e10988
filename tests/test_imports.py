"""The import directions: the contracts of pyproject.toml, and what an import really loads."""

import importlib
import pkgutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGES = ("operators", "schemas", "pipeline")
MODULES = sorted(
    module.name
    for package in PACKAGES
    for module in pkgutil.walk_packages([str(ROOT / package)], prefix=f"{package}.")
    if not module.name.endswith(".__main__")
)


def lint(folder: Path) -> subprocess.CompletedProcess[str]:
    code = (
        "import sys; from importlinter.cli import lint_imports; sys.exit(lint_imports(sys.argv[1]))"
    )
    config = ROOT / "pyproject.toml"
    return subprocess.run(
        [sys.executable, "-c", code, str(config)],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )


def loaded_by(module: str) -> set[str]:
    code = f"import sys, {module}; print('\\n'.join(sys.modules))"
    command = [sys.executable, "-c", code]
    told = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return {name.partition(".")[0] for name in told.split()}


def test_the_contracts_hold() -> None:
    told = lint(ROOT)
    assert told.returncode == 0, told.stdout + told.stderr


@pytest.mark.parametrize(
    ("module", "line", "contract"),
    [
        ("operators/bad.py", "import schemas", "never upward"),
        ("schemas/bad.py", "from pipeline import good", "never upward"),
        ("operators/bad.py", "import time", "operators: no broker"),
        ("operators/bad.py", "import kafka.errors", "operators: no broker"),
        ("operators/bad.py", "def f():\n    import reactivex", "reactivex: operators.rx"),
        ("pipeline/bad.py", "import reactivex.operators", "reactivex: operators.rx"),
        ("pipeline/bad.py", "import kafka", "kafka-python: pipeline.kafka alone"),
        ("pipeline/bad.py", "from fastavro import schemaless_reader", "fastavro: schemas alone"),
        ("schemas/bad.py", "import threading", "schemas: no broker"),
    ],
)
def test_a_breach_is_found(tmp_path: Path, module: str, line: str, contract: str) -> None:
    for package in PACKAGES:
        (tmp_path / package).mkdir()
        (tmp_path / package / "__init__.py").touch()
        (tmp_path / package / "good.py").touch()
    (tmp_path / module).write_text(line + "\n")
    told = lint(tmp_path)
    broken = [row for row in told.stdout.splitlines() if row.endswith("BROKEN")]
    assert told.returncode == 1, told.stdout + told.stderr
    assert any(contract in row for row in broken), told.stdout


@pytest.mark.parametrize("module", MODULES)
def test_every_module_imports(module: str) -> None:
    importlib.import_module(module)


def test_the_folds_load_no_broker_codec_or_rx() -> None:
    folds = [m for m in MODULES if m.startswith("operators.") and not m.startswith("operators.rx")]
    assert folds
    loaded = loaded_by(", ".join(folds))
    assert loaded & {"kafka", "fastavro", "reactivex", "asyncio", "schemas", "pipeline"} == set()


def test_the_schemas_load_no_broker_or_rx() -> None:
    rooms = [module for module in MODULES if module.startswith("schemas.")]
    assert loaded_by(", ".join(rooms)) & {"kafka", "reactivex", "asyncio", "pipeline"} == set()
