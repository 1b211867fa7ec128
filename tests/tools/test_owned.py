"""Tools of an owned session: nothing of another owner's is read, written, named or told."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import given, strategies as st
from sqlalchemy import Engine, ForeignKey, Uuid, inspect, select
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column

from alfred_refs import Ownership, RefRegistry, RefSession, SetupError
from alfred_refs.context import Context, Step
from alfred_refs.store.memory import MemoryStore
from alfred_refs.tools import Toolset
from tests import owned
from tests.fix_owned import World
from tests.owned import (
    Animal,
    Cat,
    Dog,
    Ingredient,
    Line,
    Plan,
    Recipe,
    Remark,
    Secret,
    Shelf,
    User,
)
from tests.tools.conftest import by, counted, save
from tests.tools.test_filters import EACH_TIME

MODELS = [Recipe, Line, Remark, Plan, Ingredient, User, Dog, Shelf]
Told = Callable[..., dict[str, Any]]


@pytest.fixture
def tools(ownership: Ownership) -> Toolset:
    """A toolset that knows whose rows are whose."""
    return Toolset(MODELS, owner=ownership)


@pytest.fixture
def anns(owned_engine: Engine, world: World, ownership: Ownership) -> Iterator[RefSession]:
    """A session of ann's, in a conversation of hers that has a ref for every row of all."""
    registry = RefRegistry(store=MemoryStore())
    conversation = registry.conversation("chat-7", owner=world.users["ann"])
    for model in MODELS:
        mapper = inspect(model).mapper
        with Session(owned_engine) as plain:
            keys = plain.execute(select(*mapper.primary_key).order_by(*mapper.primary_key)).all()
        conversation.refer_all(model, [tuple(k) if len(k) > 1 else k[0] for k in keys])
    owner = ownership.of(world.users["ann"])
    with RefSession(owned_engine, conversation=conversation, owner=owner) as session:
        yield session


@pytest.fixture
def told(tools: Toolset, anns: RefSession) -> Told:
    """Call a tool in ann's session."""

    def told(tool: str, /, **arguments: Any) -> dict[str, Any]:
        answer = counted(tools, anns, tool, arguments)
        assert "user_id" not in json.dumps(answer.get("rows", []))
        return answer

    return told


def test_only_rows_that_the_owner_may_change_are_counted(
    tools: Toolset, anns: RefSession, plainly: Callable[[Any], list[Any]]
) -> None:
    """Neither those of others nor those that all may read: a write tells nothing of them."""
    every = {"field": "name", "op": "is_not_null"}
    update = {"table": "recipes", "filters": [every], "data": {"name": "x"}}
    error = tools.call(anns, "db_update", update)["error"]
    assert (error["code"], error["count"]) == ("unconfirmed_count", 1)
    for count in (2, 3):
        error = tools.call(anns, "db_update", {**update, "expect": {"count": count}})["error"]
        assert (error["code"], error["actual"]) == ("unexpected_count", 1)
    assert tools.call(anns, "db_update", {**update, "expect": {"count": 1}})["count"] == 1
    assert plainly(select(Recipe.name)).count("x") == 1


@pytest.fixture
def links(owned_engine: Engine, world: World) -> Callable[[], set[tuple[str, str]]]:
    """All links of recipes, by the names of their owners: each recipe to all others, and salt."""
    names = {key: who for who, key in world.recipes.items()}
    pairs = [{"from_id": a, "to_id": b} for a in names for b in names if a != b]
    with Session(owned_engine) as plain, plain.begin():
        plain.execute(owned.recipe_links.insert(), pairs)
        salt = [{"recipe_id": a, "ingredient_id": world.salt} for a in names]
        plain.execute(owned.recipe_tags.insert(), salt)

    def links() -> set[tuple[str, str]]:
        with Session(owned_engine) as plain:
            return {(names[a], names[b]) for a, b in plain.execute(select(owned.recipe_links))}

    return links


def recipes_by_owner(told: Told) -> dict[str, str]:
    """Return the refs of the recipes that ann sees, by the owner."""
    return {row["name"]: row["id"] for row in told("db_read", table="recipes")["rows"]}


def test_links_are_shown_if_both_ends_are(
    tools: Toolset, anns: RefSession, told: Told, links: Callable[[], set[tuple[str, str]]]
) -> None:
    """In rows, totals and SQL: of six, ann sees the two between her recipe and the shared one."""
    assert len(links()) == 6
    seen = recipes_by_owner(told)
    rows = told("db_read", table="recipe_links")["rows"]
    ends = {(row["from_id"], row["to_id"]) for row in rows}
    assert ends == {(seen["ann"], seen["all"]), (seen["all"], seen["ann"])}
    for table, count in (("recipe_links", 2), ("recipe_tags", 2)):
        totals = told("db_read", table=table, columns=["count(*)"])["totals"]
        assert totals == [{"count(*)": count}]
    by_sql = Toolset(MODELS, owner=tools.ownership, sql=True)
    sql = {"sql": "select count(*) from recipe_links"}
    assert by_sql.call(anns, "db_query", sql)["rows"] == [[2]]


def test_links_are_written_if_the_owner_may_write_the_end_that_has_them(
    tools: Toolset,
    told: Told,
    links: Callable[[], set[tuple[str, str]]],
    anns: RefSession,
    world: World,
) -> None:
    """The other end may be a row that all may read, and is none of somebody else's."""
    before, seen = links(), recipes_by_owner(told)
    bobs = ref(anns, Recipe, world.recipes["bob"])

    def link(one: str, other: str) -> list[dict[str, Any]]:
        names = {"from_id": one, "to_id": other}
        return [{"field": name, "op": "=", "value": text} for name, text in names.items()]

    for one, other in ((seen["all"], seen["ann"]), (seen["ann"], bobs), (bobs, seen["ann"])):
        answer = told("db_delete", table="recipe_links", filters=link(one, other))
        assert answer.get("count") == 0 or answer["error"]["code"] == "foreign_row"
    everything = [{"field": "from_id", "op": "is_not_null"}]
    asked = {"table": "recipe_links", "filters": everything}
    assert tools.call(anns, "db_delete", asked)["error"]["count"] == 1
    assert links() == before
    mine = link(seen["ann"], seen["all"])
    assert told("db_delete", table="recipe_links", filters=mine)["count"] == 1
    assert links() == before - {("ann", "all")}
    for one, other in ((seen["all"], seen["all"]), (seen["ann"], bobs), (bobs, seen["ann"])):
        answer = told("db_create", table="recipe_links", data={"from_id": one, "to_id": other})
        assert answer.get("error", answer).get("code") == "foreign_row", answer
    again = {"from_id": seen["ann"], "to_id": seen["all"]}
    assert told("db_create", table="recipe_links", data=again)["count"] == 1
    assert links() == before


def ref(session: RefSession, model: type[Any], key: uuid.UUID) -> str:
    """Return the ref of a row, whosever it is."""
    assert session.conversation is not None
    return session.conversation.refer(model, key)


def everything(engine: Engine, world: World) -> list[Any]:
    """Return all rows that are not ann's."""
    with Session(engine) as plain:
        rows: list[Any] = []
        ann = world.users["ann"]
        for table in (Recipe.__table__, Plan.__table__, Line.__table__, Dog.__table__):
            rows += [
                row for row in plain.execute(select(table).order_by(table.c[0])) if ann not in row
            ]
        return rows


def test_what_is_counted_is_what_the_owner_reads(anns: RefSession, ownership: Ownership) -> None:
    """Of every table, by whatever class its rows are read, and in paths of filters."""
    models = {each.__name__: each for each in [*MODELS, Animal, Cat]}
    toolset = Toolset(models, owner=ownership)

    def read(name: str, **asked: Any) -> dict[str, Any]:
        return toolset.call(anns, "db_read", {"table": name, **asked})

    for name in models:
        count = read(name)["count"]
        assert read(name, columns=["count(*)"])["totals"] == [{"count(*)": count}]
    grouped = ["recipe_id", "count(*)"]
    bobs = {"field": "recipe.name", "op": "=", "value": "bob"}
    assert read("Line", columns=grouped, filters=[bobs])["totals"] == []
    counted = {
        each["recipe_id"]: each["count(*)"] for each in read("Line", columns=grouped)["totals"]
    }
    assert counted == {row["recipe_id"]: 1 for row in read("Line")["rows"]}
    assert "user_id" in read("Dog", columns=["user_id", "count(*)"])["error"]["message"]


def test_a_read_is_of_the_owners_rows_and_shared_ones(told: Told) -> None:
    """Of every table, related rows and labels included."""
    for table, names in (("recipes", {"ann", "all"}), ("plans", {"ann"}), ("users", {"ann"})):
        column = "code" if table == "plans" else "name"
        assert {row[column] for row in told("db_read", table=table)["rows"]} == names
    assert {row["text"] for row in told("db_read", table="lines")["rows"]} == {"ann", "all"}
    assert {row["text"] for row in told("db_read", table="remarks")["rows"]} == {"ann", "all"}
    assert told("db_read", table="dogs")["count"] == 1
    assert told("db_read", table="ingredients")["count"] == 1


def test_the_owner_is_neither_seen_nor_named(told: Told, tools: Toolset) -> None:
    """Its column reads as one that is not there, in every place, schemas included."""
    for tool, arguments in (
        ("db_read", {"columns": ["user_id"]}),
        ("db_read", {"filters": [{"field": "user_id", "op": "is_null"}]}),
        ("db_read", {"filters": by("user.name", "bob")}),
        ("db_read", {"order_by": "user_id"}),
        ("db_create", {"data": {"name": "x", "user_id": "user_1"}}),
        ("db_update", {"filters": by("name", "ann"), "data": {"user_id": None}}),
    ):
        answer = told(tool, table="recipes", **arguments)
        if "user.name" not in str(arguments):
            assert answer["error"]["code"] == "unknown_column"
        else:
            assert answer["rows"] == []
    assert "user_id" not in json.dumps(tools.schemas("json_schema"))
    assert "user_id" not in tools.describe()


def test_of_a_class_that_is_not_listed_no_ref_is_shown_or_taken(
    anns: RefSession, ownership: Ownership, world: World, owned_engine: Engine
) -> None:
    """The conversation has met the owner's row; a text with its key is written back as it was."""
    tools = Toolset([Recipe, Line], owner=ownership, expect="optional")
    key = str(world.users["ann"])
    with Session(owned_engine) as plain:
        plain.get_one(Line, world.lines["ann"]).text = f"for {key}"
        plain.commit()
    own = ref(anns, User, world.users["ann"])
    line = ref(anns, Line, world.lines["ann"])
    mine = by("id", line)

    [row] = tools.call(anns, "db_read", {"table": "lines", "filters": mine})["rows"]
    assert row["text"] == "for <key_1>"
    change = {"table": "lines", "filters": mine}
    refused = counted(tools, anns, "db_update", {**change, "data": {"text": f"to <{own}>"}})
    assert refused["error"]["code"] == "invalid_value"
    assert f"no '{own}' in angle brackets" in refused["error"]["message"]
    changed = counted(tools, anns, "db_update", {**change, "data": {"text": f"to {row['text']}"}})
    assert changed["rows"][0]["text"] == "to for <key_1>"
    with Session(owned_engine) as plain:
        assert plain.get_one(Line, world.lines["ann"]).text == f"to for {key}"


def test_prompts_neither_name_nor_count_a_class_that_is_not_listed(
    anns: RefSession, ownership: Ownership, world: World
) -> None:
    """What a user or a plan says of its rows has no ref; without a toolset all is told."""
    tools = Toolset([Recipe, Line], owner=ownership)
    own, line = (ref(anns, m, getattr(world, m.__tablename__)["ann"]) for m in (User, Line))
    chat: Any = anns.conversation
    counted = Context(chat, toolset=tools).view().others
    assert counted == {"ingredient": 1, "line": 3, "recipe": 3}  # lines show refs of ingredients
    assert Context(chat).view().others["user"] == 2
    step = Step("analyze", f"look at {world.users['ann']} and {world.lines['ann']}")
    assert f"look at <key> and {line}" in Context(chat, toolset=tools).prompt(step).user
    assert f"look at {own} and {line}" in Context(chat).prompt(step).user


def test_what_is_created_is_the_owners(told: Told, owned_engine: Engine, world: World) -> None:
    """Stamped, without being asked for."""
    answer = told("db_create", table="recipes", data=[{"name": "one"}, {"name": "two"}])
    assert answer["count"] == 2
    with Session(owned_engine) as plain:
        made = plain.scalars(select(Recipe.user_id).where(Recipe.name.in_(["one", "two"]))).all()
    assert set(made) == {world.users["ann"]}


@pytest.mark.parametrize("whose", ["bob", "all"])
@pytest.mark.parametrize("tool", ["db_update", "db_delete"])
def test_rows_of_others_are_not_written(
    told: Told, anns: RefSession, world: World, tool: str, whose: str
) -> None:
    """Named by their refs or met by a filter; shared ones are refused by name, as an error."""
    engine = anns.get_bind()
    assert isinstance(engine, Engine)
    before = everything(engine, world)
    data = {"data": {"text": "mine now"}} if tool == "db_update" else {}
    shared = ref(anns, Remark, world.remarks["all"])
    named = by("id", ref(anns, Remark, world.remarks[whose]))
    met = by("text", whose)
    for filters in (named, met, [{"or": [*named, *met]}]):
        answer = told(tool, table="remarks", filters=filters, **data)
        if whose == "bob":
            assert answer["count"] == 0
            assert answer["notes"] == ["no row matches the filters; nothing was changed"]
        else:
            assert answer["error"] == {
                "code": "foreign_row",
                "message": f"{shared!r} can be read and not changed; nothing was changed; leave "
                "that as it is, or create a row of your own and change it",
                "ref": shared,
                "column": None,
                "refs": [shared],
            }

    everyone = [{"field": "text", "op": "is_not_null"}]
    assert told(tool, table="remarks", filters=everyone, **data)["count"] == 1
    assert everything(engine, world) == before
    with Session(engine) as plain:
        assert whose in plain.scalars(select(Remark.text)).all()


def test_rows_of_others_keep_a_row_and_are_not_named(
    told: Told, owned_engine: Engine, world: World
) -> None:
    """A row goes with what is the owner's; what is another's refers to it and stays as it is."""
    mine = by("name", "ann")
    with Session(owned_engine) as plain:
        plans = plain.scalars(select(Plan).where(Plan.user_id == world.users["bob"])).all()
        plans[0].recipe_id = world.recipes["ann"]
        plain.commit()
    before = everything(owned_engine, world)

    error = told("db_delete", table="recipes", filters=mine)["error"]
    assert error["code"] == "still_referenced"
    assert len(error["refs"]) == {"plans": 1, "remarks": 1}.get(error["referring"], 0)
    for table in ("plans", "remarks"):
        told("db_delete", table=table, filters=[{"field": "id", "op": "is_not_null"}])
    error = told("db_delete", table="recipes", filters=mine)["error"]
    assert (error["referring"], error["refs"]) == (None, [])
    assert everything(owned_engine, world) == before


def test_a_reference_to_what_the_owner_cannot_see_is_refused(
    told: Told, anns: RefSession, owned_engine: Engine, world: World
) -> None:
    """Of a new row and of a changed one; a shared row may be named, and nothing is half done."""
    before = everything(owned_engine, world)
    bobs = ref(anns, Recipe, world.recipes["bob"])
    shared = ref(anns, Recipe, world.recipes["all"])
    mine = by("code", "ann")
    for tool, table, arguments in (
        ("db_create", "plans", {"data": [{"recipe_id": shared}, {"recipe_id": bobs}]}),
        ("db_update", "plans", {"data": {"recipe_id": bobs}, "filters": mine}),
        ("db_create", "lines", {"data": {"recipe_id": bobs, "text": "x"}}),
    ):
        error = told(tool, table=table, **arguments)["error"]
        assert (error["code"], error["column"]) == ("foreign_row", "recipe_id")
        assert error["message"] == (
            f"{bobs!r} cannot be used in 'recipe_id'; nothing was changed; read the rows that "
            "can, and use one"
        )
        assert "bob" not in json.dumps(error)
    assert everything(owned_engine, world) == before
    assert told("db_create", table="plans", data={"recipe_id": shared})["count"] == 1
    into_shared = told("db_create", table="lines", data={"recipe_id": shared, "text": "x"})
    assert into_shared["error"]["code"] == "foreign_row"


def test_a_toolset_and_its_session_go_by_one_ownership(
    tools: Toolset, anns: RefSession, owned_engine: Engine, world: World
) -> None:
    """Neither works with one of the other kind, and every class is known."""
    conversation = anns.conversation
    others = owned.ownership().of(world.users["ann"])
    with RefSession(owned_engine, conversation=conversation) as unowned:
        for session, toolset in (
            (unowned, tools),
            (anns, Toolset(MODELS)),
            (RefSession(owned_engine, conversation=conversation, owner=others), tools),
        ):
            with pytest.raises(SetupError):
                toolset.call(session, "db_read", {"table": "recipes"})
    with pytest.raises(SetupError):
        Toolset([Secret], owner=tools.ownership)


FIELDS = st.sampled_from(
    [
        "name",
        "parent.name",
        "lines.text",
        "links.name",
        "tags.name",
        "lines.recipe.name",
        "user.name",
    ]
)
CLAUSES = st.fixed_dictionaries(
    {
        "field": FIELDS,
        "op": st.sampled_from(["=", "!=", "in", "not_in", "ilike", "is_null"]),
        "value": st.sampled_from(["ann", "bob", "all", "%b%"]),
    }
).map(
    lambda clause: {
        **clause,
        "value": {"in": [clause["value"]], "not_in": [clause["value"]], "is_null": None}.get(
            clause["op"], clause["value"]
        ),
    }
)
FILTERS = st.recursive(
    CLAUSES,
    lambda inner: st.one_of(
        st.builds(lambda each: {"and": each}, st.lists(inner, min_size=1, max_size=2)),
        st.builds(lambda each: {"or": each}, st.lists(inner, min_size=1, max_size=2)),
        st.builds(lambda each: {"not": each}, inner),
    ),
    max_leaves=4,
)


@pytest.mark.slow
@EACH_TIME
@given(filters=st.lists(FILTERS, min_size=1, max_size=2))
def test_no_filter_reaches_beyond_the_owner(
    told: Told, anns: RefSession, owned_engine: Engine, world: World, filters: list[Any]
) -> None:
    """Whatever its groups and paths: what bob has is not read, changed, deleted or told apart."""
    before = everything(owned_engine, world)
    read = told("db_read", table="recipes", filters=filters, columns=["name", "lines", "links"])
    assert {row["name"] for row in read["rows"]} <= {"ann", "all"}
    with anns.begin() as transaction:
        told("db_update", table="recipes", filters=filters, data={"minutes": 7})
        transaction.rollback()
    with anns.begin() as transaction:
        told("db_delete", table="lines", filters=[{"field": "recipe.name", "op": "is_not_null"}])
        transaction.rollback()
    assert everything(owned_engine, world) == before


def test_filters_on_drafts_need_no_table_of_the_owner(told: Told) -> None:
    """The statement that compares drafts has no table that could be confined."""
    new = [{"name": "Soup", "lines": [{"text": "water"}]}, {"name": "Stew"}]
    told("db_create", table="recipes", data=new, draft=True)
    for field, value in (("name", "so%"), ("lines.text", "W%")):
        only = {"field": field, "op": "ilike", "value": value}
        rows = told("db_read", table="recipes", drafts=True, filters=[only])["rows"]
        assert [row["id"] for row in rows] == ["gen_recipe_1"]


def test_drafts_stand_before_the_owner_s_rows(anns: RefSession, world: World, told: Told) -> None:
    """And nothing of another owner's is told with them."""
    assert anns.conversation is not None
    theirs = ref(anns, Recipe, world.recipes["bob"])
    anns.conversation.draft(Recipe, {"name": "bisque", "parent_id": theirs})
    named = {"field": "id", "op": "=", "value": "gen_recipe_1"}
    other = {"field": "name", "op": "is_not_null"}
    asked = {"table": "recipes", "filters": [{"or": [named, other]}], "order_by": "name"}

    rows = told("db_read", **asked)["rows"]

    [draft] = [row for row in rows if "_draft" in row]
    assert draft["parent_id"] == theirs
    assert "_parent_id_label" not in draft
    names = [row["name"] for row in rows if "_draft" not in row]
    assert [row["name"] for row in rows] == ["bisque", *sorted(names)]
    assert len(rows) > 2
    for name in ("user_id", "user"):
        data = {name: ref(anns, User, world.users["ann"])}
        refused = told("db_update", table="recipes", filters=[named], data=data)
        assert refused["error"]["code"] == "unknown_column"
    assert told("db_delete", table="recipes", filters=[named])["deleted"] == ["gen_recipe_1"]


def test_a_delete_unlinks_what_the_owner_sees(
    told: Told, anns: RefSession, owned_engine: Engine, world: World
) -> None:
    """A link to what is another's keeps its row, and is not named."""
    soup = uuid.uuid4()
    with Session(owned_engine) as plain:
        others = [plain.get_one(Recipe, world.recipes[who]) for who in ("bob", "all")]
        salt = plain.get_one(Ingredient, world.salt)
        ann = world.users["ann"]
        plain.add(Recipe(id=soup, user_id=ann, name="soup", links=others, tags=[salt]))
        plain.commit()
        filters = by("name", "soup")
        error = told("db_delete", table="recipes", filters=filters)["error"]
        assert (error["code"], error["referring"], error["refs"]) == ("still_referenced", None, [])

        recipe = plain.get_one(Recipe, soup)
        recipe.links.remove(others[0])
        plain.commit()
    answer = told("db_delete", table="recipes", filters=filters)
    shown = {ref(anns, Recipe, world.recipes["all"]), ref(anns, Ingredient, world.salt)}
    assert {*answer["unlinked"]} == shown


@pytest.mark.parametrize("who", ["bob", "all"])
def test_a_draft_that_names_a_foreign_row_in_a_list_does_not_call_it_gone(
    tools: Toolset, anns: RefSession, world: World, who: str
) -> None:
    """It is there, and its ref stays what it was."""
    assert anns.conversation is not None
    foreign = ref(anns, Line, world.lines[who])
    draft = anns.conversation.draft(Recipe, {"name": "x", "lines": [foreign]})
    asked = {"table": "recipes", "from_draft": draft.ref}
    error = tools.call(anns, "db_create", asked)["error"]
    assert (error["code"], error["ref"]) == ("foreign_row", foreign)
    assert anns.conversation.resolve(foreign) == world.lines[who]


class Tagged(DeclarativeBase):
    """Rows of several owners, which refer to each other."""


class OfUser:
    """A key, and an owner."""

    id: Mapped[Any] = mapped_column(Uuid, primary_key=True, default=uuid.uuid4)
    user_id: Mapped[Any] = mapped_column(Uuid)


class Tag(OfUser, Tagged):
    """Others refer to it."""

    __tablename__ = "gone_tags"


class Note(OfUser, Tagged):
    """It goes with its tag."""

    __tablename__ = "gone_notes"
    tag_id: Mapped[Any] = mapped_column(Uuid, ForeignKey(Tag.id, ondelete="CASCADE"))


class Memo(OfUser, Tagged):
    """It loses its tag."""

    __tablename__ = "gone_memos"
    tag_id: Mapped[Any] = mapped_column(
        Uuid, ForeignKey(Tag.id, ondelete="SET NULL"), nullable=True
    )


@pytest.mark.parametrize("listed", [[Tag], [Tag, Note, Memo]])
@pytest.mark.parametrize("other", [Note, Memo])
def test_what_is_somebody_elses_does_not_go_along(
    owned_engine: Engine, other: Any, listed: list[type[Any]]
) -> None:
    """Though its class is not listed, and the schema says that it goes."""
    Tagged.metadata.create_all(owned_engine)
    ownership = Ownership(dict.fromkeys((Tag, Note, Memo), "user_id"))
    ann, key = uuid.uuid4(), uuid.uuid4()
    save(owned_engine, Tag(id=key, user_id=ann), other(user_id=uuid.uuid4(), tag_id=key))
    asked = {"table": "gone_tags", "filters": by("id", "tag_1")}
    registry = RefRegistry(store=MemoryStore())
    with RefSession(
        owned_engine, conversation="chat-7", registry=registry, owner=ownership.of(ann)
    ) as session:
        toolset = Toolset(listed, owner=ownership)
        assert toolset.call(session, "db_read", {"table": "gone_tags"})["count"] == 1
        error = counted(toolset, session, "db_delete", asked)["error"]

    assert error["code"] == "still_referenced"
    assert "those are not yours to change, so leave the row as it is" in error["message"]
    with Session(owned_engine) as plain:
        assert plain.scalars(select(other.tag_id)).all() == [key]
    Tagged.metadata.drop_all(owned_engine)
