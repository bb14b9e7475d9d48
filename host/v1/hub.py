"""Files that are named as on the Hugging Face hub: `hf:OWNER/REPOSITORY[@REVISION][/PATH]`."""

from pathlib import Path

from symlight.base.errors import UserError

PREFIX = "hf:"
NO_HUB = (
    "{} is on the Hugging Face hub, and fetching it needs huggingface_hub, which is not installed; "
    "run: pip install 'symlight[hub]', or download the file and give its path"
)


def local_file(name: str, suffix: str, *, endpoint: str | None = None, cache: Path | None = None) -> Path:
    """The file called `name`: a path, or a file on the hub, fetched once into the hub's own cache.

    Parameters
    ----------
    name : str
        A path, or `hf:OWNER/REPOSITORY[@REVISION][/PATH]`. Without PATH the repository must have exactly one
        file that ends in `suffix`.
    endpoint, cache : str, Path
        Server and folder of downloads; default: those of huggingface_hub.
    """
    if not name.startswith(PREFIX):
        return Path(name)
    parts = name.removeprefix(PREFIX).split("/")
    if len(parts) < 2 or not all(parts):
        raise UserError(
            f"{name!r} is not a name on the hub; write hf:OWNER/REPOSITORY/FILE{suffix}, "
            f"or hf:OWNER/REPOSITORY when it has one {suffix} file"
        )
    repository, _, revision = "/".join(parts[:2]).partition("@")
    try:
        from huggingface_hub import HfApi
    except ImportError as error:
        raise UserError(NO_HUB.format(name)) from error
    api = HfApi(endpoint=endpoint, token=False)
    try:
        path = "/".join(parts[2:]) or _only(api, name, repository, revision or None, suffix)
        return Path(api.hf_hub_download(repository, path, revision=revision or None, cache_dir=cache))
    except UserError:
        raise
    except Exception as error:  # the library raises its own, its transport's and the system's errors
        reason = (str(error) or type(error).__name__).strip().splitlines()[0]
        raise UserError(
            f"{name} cannot be fetched ({reason}); check name and network, "
            "or download the file by other means and give its path"
        ) from error


def _only(api, name: str, repository: str, revision: str | None, suffix: str) -> str:
    """The one file of the repository that ends in `suffix`."""
    found: list[str] = [
        file for file in api.list_repo_files(repository, revision=revision) if file.endswith(suffix)
    ]
    if len(found) == 1:
        return found[0]
    if not found:
        raise UserError(f"{name} has no {suffix} file; name a file of another repository")
    choices = ", ".join(f"{name}/{file}" for file in found)
    raise UserError(f"{name} has {len(found)} {suffix} files; name one of them: {choices}")
