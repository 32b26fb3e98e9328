"""`arena doctor`: what is installed, what lacks, and how to mend it."""

import json
import shutil
import urllib.error
import urllib.request
from email.message import Message
from importlib import metadata
from types import SimpleNamespace
from typing import Any

import pytest
from packaging.requirements import Requirement
from typer.testing import CliRunner

from arena_trainers.cli import doctor
from arena_trainers.cli.main import app


def findings_of(*options: str) -> tuple[int, dict[str, dict[str, str]]]:
    done = CliRunner().invoke(app, ["doctor", "--json", *options])
    return done.exit_code, {row["part"]: row for row in json.loads(done.stdout)}


def test_every_extra_says_what_it_opens() -> None:
    extras = (
        metadata.distribution("arena-envs").metadata.get_all("Provides-Extra") or []
    )
    assert {*doctor.OPENS} == {"", *extras} - {"dev"}


def test_an_installed_extra_is_ok_and_an_absent_one_names_its_command(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    version = metadata.version

    def without_chess(name: str) -> str:
        if name == "chess":
            raise metadata.PackageNotFoundError(name)
        return version(name)

    monkeypatch.setattr(metadata, "version", without_chess)
    status, findings = findings_of("--offline")
    # the machine's own faults, such as a GPU that torch does not see, are not this test's
    assert status == ("broken" in {row["state"] for row in findings.values()})
    assert findings["extra train"]["state"] == "ok"
    assert findings["extra chess"]["state"] == "absent"
    assert "[chess]" in findings["extra chess"]["fix"]
    assert findings["hub"]["state"] == "absent"


def test_a_version_out_of_range_is_broken(monkeypatch: pytest.MonkeyPatch) -> None:
    version = metadata.version
    monkeypatch.setattr(
        metadata, "version", lambda name: "0.9" if name == "trl" else version(name)
    )
    status, findings = findings_of("--offline")
    assert status == 1
    assert findings["extra train"]["state"] == "broken"
    assert "trl 0.9, want " in findings["extra train"]["text"]


def test_a_nearly_full_disk_is_named_and_no_fault(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda path: SimpleNamespace(free=2**30))
    monkeypatch.setattr(doctor, "_accelerators", lambda: [])
    status, findings = findings_of("--offline")
    assert status == 0
    assert findings["disk"]["state"] == "low"
    assert findings["disk"]["text"] == "1.0 GiB free here"
    assert findings["disk"]["fix"]


def test_a_version_that_was_not_tested_is_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    requirements = [Requirement("numpy>=1.26")]
    finding = doctor._extra("", requirements, {"numpy": "1.26.0"})
    assert finding.state == "ok"
    assert "tested with 1.26.0" in finding.text
    tested = {"numpy": metadata.version("numpy")}
    assert "tested" not in doctor._extra("", requirements, tested).text


@pytest.mark.parametrize(
    ("failure", "state"),
    [
        (urllib.error.URLError("no route"), "absent"),
        (TimeoutError("slow"), "absent"),
        (urllib.error.HTTPError("url", 403, "no", Message(), None), "ok"),
    ],
)
def test_a_hub_that_does_not_answer_is_not_an_error(
    monkeypatch: pytest.MonkeyPatch, failure: Exception, state: str
) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise failure

    monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)
    monkeypatch.setattr(urllib.request, "urlopen", refuse)
    assert doctor._hub(offline=False).state == state
