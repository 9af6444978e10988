"""What a local Apache Kafka is run with: Java, and the server jars, fetched once per user.

The jars come through Maven, the registry Kafka itself publishes to, into
``<user cache>/foldstream/kafka/<version>``; with that folder filled, Maven is not needed any more.
"""

import os
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Timer
from typing import TypeAlias

from .errors import Fatal

Say: TypeAlias = Callable[[str], None]
"""Takes one line of progress; where it goes is the caller's business."""

MIN_JAVA = 17
_JVMS = Path("/usr/lib/jvm")
FETCH_SECONDS = 900  # a stalled download must end in a message, not in a hang
_JAVA_REMEDY = (
    f"install a Java runtime {MIN_JAVA} or newer (Debian, Ubuntu: apt install default-jre-headless;"
    " macOS: brew install openjdk), or point JAVA_HOME at one"
)
_MAVEN_REMEDY = (
    "install Maven (Debian, Ubuntu: apt install maven; macOS: brew install maven):"
    " it fetches the jars once"
)
_POM = """<project xmlns="http://maven.apache.org/POM/4.0.0">
<modelVersion>4.0.0</modelVersion><packaging>pom</packaging>
<groupId>foldstream</groupId><artifactId>local-kafka</artifactId><version>1</version>
<dependencies>{dependencies}</dependencies>
</project>
"""
# Kafka Connect is only pulled in by a tool for its plug-ins: half of the download.
_DEPENDENCY = """
<dependency><groupId>{0}</groupId><artifactId>{1}</artifactId><version>{2}</version><exclusions>
<exclusion><groupId>org.apache.kafka</groupId><artifactId>connect-runtime</artifactId></exclusion>
</exclusions></dependency>"""
# Without a binding among the jars the broker would say nothing, not even why it stopped.
_LOG4J = """appender.out.type=Console
appender.out.name=out
appender.out.layout.type=PatternLayout
appender.out.layout.pattern=%d %p %m (%c)%n
rootLogger=warn, out
"""


class BrokerError(Fatal):
    """Why there is no local Kafka: one line, with the remedy."""


class NoKafkaHere(BrokerError):  # noqa: N818 - named by what it says
    """This machine has no Java, an old one, or no Maven: ``--broker auto`` takes memory instead."""


def kafka_version() -> str:
    """The version of Apache Kafka to run (``KAFKA_LOCAL_VERSION``)."""
    return os.environ.get("KAFKA_LOCAL_VERSION", "4.4.0")


def unavailable() -> str | None:
    """Why no Kafka can run on this machine, or None when it can (jars may still have to come)."""
    try:
        find_java()
        if not _home().is_dir():
            _find_maven()
    except NoKafkaHere as reason:
        return str(reason)
    return None


def find_java() -> str:
    """The first Java of ``JAVA_HOME``, the path and ``/usr/lib/jvm`` that is new enough."""
    too_old = ""
    for exe in _javas():
        version = _version_of(exe)
        if version is not None and version >= MIN_JAVA:
            return exe
        if version is not None:
            too_old = too_old or f"Java {version} ({exe}) is too old for Apache Kafka"
    raise NoKafkaHere(too_old or "no Java found", _JAVA_REMEDY)


def java_command(*args: str | Path) -> list[str]:
    """A command line that runs a main class of the jars, fetched before (:func:`fetch`)."""
    flags = os.environ.get(
        "KAFKA_LOCAL_JVM", "-Xms128m -Xmx512m -XX:+UseSerialGC -XX:TieredStopAtLevel=1"
    )
    log = f"-Dlog4j2.configurationFile=file:{_home()}/log4j2.properties"
    return [find_java(), *flags.split(), log, "-cp", f"{_home()}/libs/*", *map(str, args)]


def fetch(say: Say) -> Path:
    """The folder with the jars, filled through Maven when it is not there yet."""
    home = _home()
    if home.is_dir():
        return home
    find_java()  # Maven's own message about it is longer
    maven = _find_maven()
    try:
        home.parent.mkdir(parents=True, exist_ok=True)
        part = Path(tempfile.mkdtemp(prefix=f".{home.name}-", dir=home.parent))
    except OSError as error:
        raise BrokerError(
            f"no place for Apache Kafka's jars ({error})", "point XDG_CACHE_HOME elsewhere"
        ) from None
    try:
        (part / "pom.xml").write_text(_pom())
        (part / "log4j2.properties").write_text(_LOG4J)
        _run_maven(maven, part, say)
        if not home.is_dir():  # another process may have been faster
            part.rename(home)  # at once: a half-filled cache is never seen
    finally:
        shutil.rmtree(part, ignore_errors=True)
    return home


def _home() -> Path:
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(cache) / "foldstream" / "kafka" / kafka_version()


def _javas() -> Iterator[str]:
    if home := os.environ.get("JAVA_HOME"):
        yield str(Path(home) / "bin" / "java")
    if on_path := shutil.which("java"):
        yield on_path
    yield from map(str, sorted(_JVMS.glob("*/bin/java"), reverse=True))


def _version_of(exe: str) -> int | None:
    """17 of ``openjdk version "17.0.15"``, 8 of ``java version "1.8.0_292"``; None: no Java."""
    try:
        told = subprocess.run(
            [exe, "-version"], capture_output=True, text=True, timeout=30, check=True
        ).stderr
    except (OSError, subprocess.SubprocessError):
        return None
    found = re.search(r'version "(?:1\.)?(\d+)', told)
    return int(found[1]) if found else None


def _find_maven() -> str:
    if maven := shutil.which("mvn"):
        return maven
    raise NoKafkaHere("no Maven (mvn) found", _MAVEN_REMEDY)


def _pom() -> str:
    jars = [
        ("org.apache.kafka", "kafka_2.13", kafka_version()),
        ("org.apache.kafka", "kafka-tools", kafka_version()),
        ("org.apache.logging.log4j", "log4j-slf4j-impl", "2.25.5"),
    ]
    return _POM.format(dependencies="".join(_DEPENDENCY.format(*jar) for jar in jars))


def _run_maven(maven: str, part: Path, say: Say) -> None:
    goal = ["dependency:copy-dependencies", "-DincludeScope=runtime"]
    command = [maven, "-B", "-f", str(part / "pom.xml"), *goal, f"-DoutputDirectory={part}/libs"]
    say(f"fetching Apache Kafka {kafka_version()} through Maven (about 50 MB, once)")
    began = told = time.monotonic()
    files, why = 0, "no answer in time"
    with subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as maven_run:
        watchdog = Timer(FETCH_SECONDS, maven_run.kill)
        watchdog.start()
        try:
            for line in maven_run.stdout or ():
                files += "Downloaded from" in line
                if line.startswith("[ERROR] ") and why == "no answer in time":
                    why = line.removeprefix("[ERROR] ").strip()
                if time.monotonic() - told > 3:
                    told = time.monotonic()
                    say(f"  {files} files so far, {told - began:.0f} s")
        except BaseException:
            maven_run.kill()
            raise
        finally:
            watchdog.cancel()
    if maven_run.returncode:
        raise BrokerError(
            f"Maven could not fetch Apache Kafka's jars ({why})",
            "check the network or Maven's settings.xml and try again",
        )
    say(f"  Apache Kafka is in {_home()} ({time.monotonic() - began:.0f} s)")
