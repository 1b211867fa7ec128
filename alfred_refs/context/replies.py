"""Names in place of refs, for the user who reads what a model has written.

A reply comes in, whole or in chunks cut anywhere; out comes the same with `Thai Curry` where it
had `recipe_3`. A ref counts where it stands by itself: in prose, lists, code, emphasis and the
text of links, before a possessive, with its underscores escaped as Markdown has it; not inside a
longer word, and not inside an address, which a name would break:

- where it is joined to more by one of `/ # ? = & : .`, as in `/recipes/recipe_3`, `app:recipe_3`,
  `recipe_3.pdf`; what joins ends at white space, brackets, quotes and signs that no URL has;
- in the target of a Markdown link, from `](` to `)`, and in what is quoted after `=`, as the
  attributes of HTML are.

However a text is cut, the result is the same: at most the length of the longest ref, and a
character, is held back until it is clear where a word ends.

```python
replies = Names(lambda refs: {"recipe_3": "Thai Curry"}, longest=20)
[*replies.of(["I put reci", "pe_3's sauce", " on the list."])]
# ['I put ', "Thai Curry's sauce", ' on the list.']
```
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from alfred_refs.mapping.refs import parse_ref

NamesOf = Callable[[Sequence[str]], Mapping[str, str]]
"""Returns the name of each ref that is known: one look-up for those of a chunk."""

# a word as far as a ref is concerned, what joins words to an address, and what ends one
_PIECE = re.compile(
    r"(?P<word>[A-Za-z0-9_\\]+)|(?P<join>[/#?=&:.])|[\s<>()\[\]\"'`|]|[^\w\x00-\x7f]"
)
_UNFINISHED = re.compile(r"([A-Za-z0-9_\\]+)[/#?=&:.]?\Z")
_GOES_ON = re.compile(r"[/#?=&:.]\w")
_MARKUP = "_\\"  # emphasis or an escape, at the ends of a word
# what begins a stretch that is an address whatever stands in it -> what ends it
_STRETCHES = {"](": ")\n", '="': '"<>\n', "='": "'<>\n"}


class Names:
    """Puts names in the place of refs, chunk by chunk; one object for each reply.

    Args:
        names_of: looks names up; each ref is asked for once.
        longest: characters of the longest ref there may be.
        unknown: what is shown for a ref that nothing is known of; as it is, by default.
    """

    def __init__(
        self, names_of: NamesOf, longest: int, unknown: Callable[[str], str] = str
    ) -> None:
        self._names_of = names_of
        self._longest = longest
        self._unknown = unknown
        self._known: dict[str, str] = {}
        self._held = ""
        self._before = ""  # the last character that was given out
        self._joined = False  # to what stands before in an address
        self._until = ""  # what ends the stretch that is one
        self._in_word = False  # in one that is too long for a ref

    def of(self, chunks: Iterable[str]) -> Iterator[str]:
        """Yield a reply's chunks with names, as soon as each is clear."""
        for chunk in chunks:
            if text := self.add(chunk):
                yield text
        if text := self.end():
            yield text

    def add(self, chunk: str) -> str:
        """Return what is clear once a chunk has come."""
        text = self._held + chunk
        unfinished = _UNFINISHED.search(text)
        if unfinished is None:
            self._held = ""
            return self._named(text)
        if self._is_long(unfinished[1]):  # no ref: it need not be held
            self._held, done = "", self._named(text)
            self._in_word = unfinished.end(1) == len(text)
            return done
        self._held = unfinished[0]
        return self._named(text[: unfinished.start()], unfinished[0])

    def end(self) -> str:
        """Return the rest."""
        text, self._held = self._held, ""
        return self._named(text)

    def _is_long(self, word: str) -> bool:
        core = word.strip(_MARKUP).replace("\\_", "_")
        return len(core) > self._longest or len(word) > 2 * self._longest

    def _named(self, text: str, after: str = "") -> str:
        """Return a text that ends where a word does, with names."""
        refs = self._refs_in(text, after)
        self._look_up([ref for _, ref in refs])
        shown, end = [], 0
        for place, ref in refs:
            shown += [text[end : place.start()], self._word(place[0], ref)]
            end = place.end()
        return "".join([*shown, text[end:]])

    def _refs_in(self, text: str, after: str) -> list[tuple[re.Match[str], str]]:
        """Return the refs that stand by themselves, and go past the text."""
        found, whole = [], text + after
        for piece in _PIECE.finditer(text):
            start = piece.start()
            if not piece["word"]:
                self._pass(piece, text[start - 1] if start else self._before)
                continue
            is_rest = self._in_word and start == 0
            is_address = self._until or self._joined or _GOES_ON.match(whole, piece.end())
            ref = None if is_rest or is_address else self._ref_of(piece[0])
            if ref is not None:
                found.append((piece, ref))
        if text:
            self._before, self._in_word = text[-1], False
        return found

    def _pass(self, sign: re.Match[str], before: str) -> None:
        """Go past what is no word."""
        if not self._until:
            self._until = _STRETCHES.get(before + sign[0], "")
        elif sign[0] in self._until:
            self._until = ""
        self._joined = sign["join"] is not None

    def _ref_of(self, word: str) -> str | None:
        """Return the ref that a word spells, be it capitalised, escaped or emphasised."""
        text = word.strip(_MARKUP).replace("\\_", "_").lower()
        return None if self._is_long(word) or parse_ref(text) is None else text

    def _look_up(self, refs: Sequence[str]) -> None:
        new = [ref for ref in dict.fromkeys(refs) if ref not in self._known]
        if new:
            found = self._names_of(new)
            self._known |= {ref: found.get(ref) or self._unknown(ref) for ref in new}

    def _word(self, word: str, ref: str) -> str:
        name = self._known[ref]
        if name == ref:
            return word
        core = word.strip(_MARKUP)
        start = word.index(core)
        return word[:start] + name + word[start + len(core) :]
