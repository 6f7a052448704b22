"""The source of a Debian package, which is fetched once."""

import re
import shutil
import subprocess

from parts import Missing, needs

# Whether what is not here yet is fetched and built.
may_fetch = True


def source(cache, package):
    """Returns the folder of a package's source."""
    place = cache / package
    if not place.is_dir():
        if not may_fetch:
            raise Missing(f"the source of {package} was not fetched yet: run tests/foreign/run without --offline")
        needs("apt-get", "tar")
        archive = fetched(cache / "apt", package)
        new = cache / f"{package}.new"
        shutil.rmtree(new, ignore_errors=True)
        new.mkdir()
        subprocess.run(["tar", "xf", str(archive), "-C", str(new), "--strip-components=1"], check=True)
        new.rename(place)
    return place


def fetched(apt, package):
    """Returns the archive of a version that can be had: the newest one that the lists name may be missing."""
    environment = {"APT_CONFIG": str(configured(apt)), "PATH": "/usr/bin:/bin:/usr/sbin:/sbin"}
    folder = apt / package
    folder.mkdir(exist_ok=True)

    def asked(*words):
        return subprocess.run(words, cwd=folder, env=environment, capture_output=True, text=True)

    asked("apt-get", "-q", "update")
    versions = [f"{package}={line.split('|')[1].strip()}" for line in asked("apt-cache", "madison", package).stdout.splitlines()]
    for version in [package, *versions]:
        done = asked("apt-get", "-q", "source", "--download-only", version)
        if done.returncode == 0:
            return next(path for path in folder.glob("*.orig.tar.*") if path.suffix != ".asc")
    raise Missing(f"apt-get source {package} failed: {done.stderr.strip().splitlines()[-1:]}")


def configured(apt):
    """Returns a configuration of apt that knows sources, without a change of the machine's own."""
    (apt / "lists/partial").mkdir(parents=True, exist_ok=True)
    of_system = "/etc/apt/sources.list.d/debian.sources"
    try:
        with open(of_system) as file:
            sources = re.sub(r"^Types: deb$", "Types: deb-src", file.read(), flags=re.MULTILINE)
    except OSError:
        raise Missing("no list of Debian's packages") from None
    (apt / "debian.sources").write_text(sources)
    places = {"Etc::sourcelist": apt / "debian.sources", "Etc::sourceparts": "-", "State::lists": apt / "lists", "Cache": apt / "cache"}
    lines = [f'Dir::{key} "{place}";' for key, place in places.items()]
    (apt / "apt.conf").write_text("\n".join([*lines, 'APT::Sandbox::User "root";', ""]))
    return apt / "apt.conf"


def build(program, words, folder, what, packages=""):
    """Runs a command that builds a suite's program, unless the program is there."""
    if program.exists():
        return
    if not may_fetch:
        raise Missing(f"{what} were not built yet: run tests/foreign/run without --offline")
    built = subprocess.run(words, cwd=folder, capture_output=True, text=True)
    if built.returncode:
        hint = f" (Debian: {packages})" if packages else ""
        raise Missing(f"{what} cannot be built{hint}: {built.stderr.strip().splitlines()[-1:]}")
