"""Strings of endpoints, and which host gets which key."""

import pytest

from arena_wrappers.policies.endpoints import host_of, key_for, read_endpoint


@pytest.fixture(autouse=True)
def keys(monkeypatch, tmp_path):
    path = tmp_path / "keys"
    path.write_text("# mine\nlocalhost:8000 from-the-file\n\ntogether.example second\n")
    monkeypatch.setenv("ARENA_KEYS_FILE", str(path))
    monkeypatch.setenv("ARENA_KEY_TOGETHER", "together.example first")
    monkeypatch.setenv("OPENAI_API_KEY", "of-openai")
    return path


@pytest.mark.parametrize(
    ("url", "key"),
    [
        ("https://api.openai.com/v1", "of-openai"),
        ("https://API.openai.com:443/v1", "of-openai"),
        ("http://api.openai.com/v1", None),
        ("https://api.openai.com.example/v1", None),
        ("https://together.example/v1", "first"),
        ("http://together.example/v1", None),
        ("https://sub.together.example/v1", None),
        ("http://localhost:8000", "from-the-file"),
        ("http://localhost:8001", None),
        ("http://[::1]:8000/v1", None),
    ],
)
def test_a_host_gets_its_own_key_only(url, key):
    assert key_for(url) == key


@pytest.mark.parametrize(
    "url",
    [
        "https://api.openai.com@evil.example/v1",
        "https://evil.example\\@api.openai.com/v1",
        "https://evil.example#@api.openai.com",
        "https://api.openai.com evil.example",
        "https://localhost/v1?key=sk-secret",
        "https://me:sk-secret@localhost/v1",
        "http://localhost:0/v1",
        "http://localhost:65536/v1",
        "ftp://localhost",
        "localhost:8000",
        "http://",
    ],
)
def test_urls_that_hide_their_host_are_refused(url):
    match = "want the URL of an endpoint, such as http"
    with pytest.raises(ValueError, match=match) as error:
        host_of(url)
    assert "sk-secret" not in str(error.value)


def test_keys_in_another_form_are_named_and_not_shown(keys, monkeypatch):
    keys.write_text("localhost:8000 good\nsk-secret\n")
    with pytest.raises(ValueError, match=r"want 'HOST KEY' in .*keys, line 2") as error:
        key_for("http://localhost:8000")
    assert "sk-secret" not in str(error.value)
    monkeypatch.setenv("ARENA_KEY_BAD", "sk-secret")
    with pytest.raises(ValueError, match="environment variable ARENA_KEY_BAD") as error:
        key_for("http://localhost:8000")
    assert "sk-secret" not in str(error.value)


def test_a_string_names_model_url_and_options():
    found = read_endpoint("org/m@2@http://[::1]:8000/v1#rules=false#max_tokens=7")
    assert (found.model, found.base_url) == ("org/m@2", "http://[::1]:8000/v1")
    assert found.options == {"max_tokens": 7, "prompt": {"rules": False}}
    for model in ("m", "org/m", "m@2", "@cf/org/m"):
        assert read_endpoint(model).base_url is None
    assert read_endpoint("http://localhost:8000").model == ""


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ("m#", "want #NAME=VALUE, got '#'; known are"),
        ("m#rule=no", "got '#rule=no'; did you mean 'rules'"),
        ("m#rules=maybe", "want rules as True or False, got 'maybe'"),
        ("m#temperature=hot", "want temperature as a number, .* got 'hot'"),
        ("m#max_token=7", "got '#max_token=7'; did you mean 'max_tokens'"),
        ("m#send_seed=no", "want send_seed as true or false, got 'no'"),
        (
            "m#send_seed=false&top_p=1",
            "want # before each option, got 'send_seed=false&t",
        ),
        ("m#stream=true", "want #NAME=VALUE, got '#stream=true'"),
        ("m@http://a@b", "want the URL of an endpoint"),
        ("m@127.0.0.1:8101/v1", "want http:// or https:// after @, got '127"),
        ("org/m@localhost#max_tokens=7", "after @, got 'localhost'; write the whole"),
        ("m@[::1]:8000", r"after @, got '\[::1\]:8000'"),
        ("m@models.example", "after @, got 'models.example'"),
        ("m@ftp://localhost", "after @, got 'ftp://localhost'"),
        ("m@me:sk-secret@localhost/v1?key=sk-secret", "after @, got 'localhost/v1'"),
    ],
)
def test_bad_options_are_refused(text, match):
    with pytest.raises(ValueError, match=match):
        read_endpoint(text)
