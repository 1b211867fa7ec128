"""Rows of prompts: read when a prompt is made, as `db_read` would show them then."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, get_args

import pytest
from sqlalchemy import Engine, delete, event, update
from sqlalchemy.ext.asyncio import AsyncEngine, async_sessionmaker
from sqlalchemy.orm import (
    ORMExecuteState,
    Session,
    scoped_session,
    sessionmaker,
    with_loader_criteria,
)

from alfred_refs import (
    AsyncRefSession,
    ContextError,
    Conversation,
    MentionError,
    Ownership,
    RefRegistry,
    RefSession,
    SetupError,
)
from alfred_refs.context import Audience, Context, Step
from alfred_refs.context.views import NOT_READ, NOTE
from alfred_refs.mapping import clean_label
from alfred_refs.tools import Hooks, Reading, ToolError, Toolset
from tests.context.conftest import Call, is_, lines
from tests.fix_owned import World
from tests.models import Cook, Person
from tests.owned import Recipe
from tests.tools.conftest import MODELS
from tests.tools.families import FAMILIES, made
from tests.tools.models import Cuisine, Dish, Part

Sessions = sessionmaker[RefSession]
Keys = dict[str, uuid.UUID]

PARTS = ["name", "parts"]


def named(name: str) -> list[dict[str, Any]]:
    """Return filters on the name of a dish."""
    return [{"field": "name", "op": "=", "value": name}]


@contextmanager
def statements(engine: Engine) -> Iterator[list[str]]:
    """Collect the statements that are sent to the application's tables."""
    sent: list[str] = []

    def note(_conn: Any, _cursor: Any, statement: str, *_: Any) -> None:
        if "alfred_refs_" not in statement and "dishes" in statement + "parts":
            sent.append(statement)

    event.listen(engine, "before_cursor_execute", note)
    try:
        yield sent
    finally:
        event.remove(engine, "before_cursor_execute", note)


def test_values_are_those_of_now(context: Context, call: Call, keys: Keys, tables: Engine) -> None:
    """Whoever has written them, and in the label too."""
    call("db_read", table="dishes", filters=named("Korma"), columns=["name", "servings"])
    with Session(tables) as plain, plain.begin():
        plain.execute(update(Dish).where(Dish.id == keys["Korma"]).values(servings=7, name="Dal"))
    assert lines(context) == ['- dish_1 "Dal" (read in turn 0)', '  {"servings": 7}']
    assert context.render("reply") == '- "Dal": dish, read'
    assert "".join(context.with_names(["dish_1"])) == "Dal"


@pytest.mark.parametrize("audience", ["act", "think", "understand"])
def test_a_row_that_others_delete_is_shown_as_deleted(
    context: Context, call: Call, keys: Keys, tables: Engine, audience: str
) -> None:
    """Though nobody has told the registry; nor is it said who did it."""
    call("db_read", table="dishes", filters=named("Soup"), columns=["name"])
    with Session(tables) as plain, plain.begin():
        plain.execute(delete(Dish).where(Dish.id == keys["Soup"]))
    assert lines(context, audience) == ['- dish_1 "Soup" (deleted since turn 0)']
    assert context.render("reply") == '- "Soup": dish, deleted'


def test_a_row_that_others_deleted_is_not_said_to_be_the_users_deed(
    context: Context, sessions: Sessions, keys: Keys, tables: Engine, conversation: Conversation
) -> None:
    """Though the user was the last to change it."""
    with sessions(conversation=conversation, by="user") as session, session.raw_keys():
        session.get_one(Dish, keys["Soup"]).servings = 3
        session.commit()
    assert lines(context, "think") == ['- dish_1 "Soup" (updated by the user in turn 0)']
    with Session(tables) as plain, plain.begin():
        plain.execute(delete(Dish).where(Dish.id == keys["Soup"]))
    assert lines(context, "think") == ['- dish_1 "Soup" (deleted since turn 0)']
    assert context.render("reply") == '- "Soup": dish, deleted'


def test_a_retained_row_that_is_deleted_or_renamed_is_shown_so(
    context: Context, call: Call, keys: Keys, tables: Engine, conversation: Conversation
) -> None:
    """Its name is read like those of the window, and nothing else of it."""
    call("db_read", table="dishes", order_by="name", columns=PARTS)  # Curry, Korma, Soup
    conversation.retain(["dish_1", "dish_2"], "liked")
    for _ in range(4):
        conversation.begin_turn()
    with Session(tables) as plain, plain.begin():
        plain.execute(update(Dish).where(Dish.id == keys["Curry"]).values(name="Dal"))
        plain.execute(delete(Part))
        plain.execute(delete(Dish).where(Dish.id == keys["Korma"]))
    with statements(tables) as sent:
        assert lines(context, "think") == [
            '- dish_1 "Dal" (read in turn 0), kept because "liked"',
            '- dish_2 "Korma" (deleted since turn 0)',
        ]
    assert not [each for each in sent if "parts." in each]


@pytest.mark.usefixtures("keys")
def test_columns_that_the_toolset_hides_are_not_shown(
    sessions: Sessions, call: Call, conversation: Conversation
) -> None:
    """Whatever another toolset has shown of the row, related rows included."""
    call("db_read", table="dishes", filters=named("Korma"), columns=["name", "servings", "parts"])
    hiding = Toolset(MODELS, hidden=[Dish.servings, Part.note], expect="optional")
    shown = Context(conversation, toolset=hiding, sessions=sessions).render("act")
    assert "servings" not in shown
    assert "rice" not in shown
    assert '  - part_1 {"position": 1}' in shown
    hiding = Toolset(MODELS, hidden=[Dish.parts], expect="optional")
    assert "part_1" not in Context(conversation, toolset=hiding, sessions=sessions).render("act")


class Refusing(Hooks):
    """Refuses every read."""

    def before_read(self, read: Reading) -> None:
        """Refuse it."""
        raise ToolError("closed", f"no {read.model.__name__} today")


class Broken(Hooks):
    """Has a mistake."""

    def before_read(self, read: Reading) -> None:
        """Fail."""
        read.conditions.append(Dish.servings == 1 // len(read.conditions))


class OnlySoup(Hooks):
    """Restricts reads to one row, and changes what is shown of it."""

    def before_read(self, read: Reading) -> None:
        """Add a condition."""
        read.conditions.append(Dish.name == "Soup")

    def after_read(self, read: Reading, rows: Any) -> None:
        """Add a value."""
        for row in rows:
            row["stock"] = 5 if read.conditions else 0


@pytest.mark.usefixtures("keys")
def test_hooks_decide_as_in_a_read(
    sessions: Sessions, call: Call, conversation: Conversation
) -> None:
    """A row that a hook hides or refuses is listed by its ref."""
    call("db_read", table="dishes", order_by="name", columns=["name"])
    for hooks, expected in (
        (Refusing(), ["(not visible)", "(not visible)", "(not visible)"]),
        (
            OnlySoup(),  # may hide a label, so that the registry's is not shown
            ["(not visible)", "(not visible)", '"Soup" (read in turn 0)'],
        ),
    ):
        toolset = Toolset(MODELS, hooks={Dish: [hooks]}, expect="optional")
        context = Context(conversation, toolset=toolset, sessions=sessions)
        shown = [line.partition(" ")[2].partition(" ")[2] for line in lines(context)]
        rows = [line for line in shown if line.startswith(('"', "(not visible"))]
        assert [line for line in rows if "(" in line] == expected
    assert '{"stock": 5}' in context.render("act")


class Masking(Hooks):
    """Hides the names of dishes."""

    def after_read(self, _: Reading, rows: Any) -> None:
        """Replace the name."""
        for row in rows:
            row["name"] = "***"


class Including(Hooks):
    """Shows related rows in each row."""

    def before_read(self, read: Reading) -> None:
        """Add the list of parts."""
        read.include.append("parts")


@pytest.mark.usefixtures("keys")
def test_rows_that_a_hook_includes_are_shown(
    sessions: Sessions, call: Call, conversation: Conversation
) -> None:
    """Though the model did not ask for them."""
    call("db_read", table="dishes", filters=named("Korma"), columns=["name"])
    toolset = Toolset(MODELS, hooks={Dish: [Including()]}, expect="optional")
    assert lines(Context(conversation, toolset=toolset, sessions=sessions)) == [
        '- dish_1 "Korma" (read in turn 0)',
        "  parts:",
        '  - part_1 {"position": 1, "note": "rice"}',
        '  - part_2 {"position": 2, "note": "sauce"}',
    ]


def test_keys_in_values_are_refs_as_in_an_answer(
    context: Context, call: Call, keys: Keys, tables: Engine
) -> None:
    """In documents and in text."""
    extra = {"see": str(keys["Curry"]), "or": f"what is like {keys['Curry'].hex}"}
    with Session(tables) as plain, plain.begin():
        plain.get_one(Dish, keys["Soup"]).extra = extra
    call("db_read", table="dishes", filters=named("Curry"), columns=["name"])
    answer = call("db_read", table="dishes", filters=named("Soup"), columns=["name", "extra"])
    shown = answer["rows"][0]["extra"]
    assert shown["see"] == "<dish_1>"
    assert lines(context)[-1] == f"  {json.dumps({'extra': shown})}"


@pytest.mark.parametrize("models", [[Person, Cook], [Cook, Person]])
def test_rows_of_subclasses_are_read_from_the_table_that_has_them(
    conversation: Conversation, sessions: Sessions, tables: Engine, models: list[type[Any]]
) -> None:
    """With the fields that were shown of them; the order of the tables is of no matter."""
    toolset = Toolset(models, expect="optional")
    with Session(tables) as plain, plain.begin():
        plain.add_all([Cook(kind="cook", stars=3), Person(kind="person")])
    for table, columns in (("cooks", ["stars"]), ("people", ["mentor_id"])):
        with sessions(conversation=conversation, by="model") as session:
            toolset.call(session, "db_read", {"table": table, "columns": columns})
    context = Context(conversation, toolset=toolset, sessions=sessions)
    first = ["- person_1 (read in turn 0)", '  {"stars": 3}', "  null: mentor_id"]
    assert lines(context) == [*first, "- person_2 (read in turn 0)", "  null: mentor_id"]
    with Session(tables) as plain, plain.begin():
        plain.execute(delete(Person).where(Person.kind == "person"))
    assert lines(context) == [*first, "- person_2 (deleted since turn 0)"]


def test_a_list_is_shown_in_its_order_and_each_row_once(
    context: Context, call: Call, keys: Keys, tables: Engine
) -> None:
    """A row that was read by itself too is shown in the row that has it, with both its columns."""
    call("db_read", table="dishes", filters=named("Korma"), columns=["name", "parts.note"])
    call("db_read", table="parts", columns=["position"])
    with Session(tables) as plain, plain.begin():
        korma = plain.get_one(Dish, keys["Korma"])
        korma.parts[0].position = 3
        korma.parts.append(Part(position=4, note="salt"))
    assert lines(context) == [
        '- dish_1 "Korma" (read in turn 0)',
        "  parts:",
        '  - part_2 {"position": 2, "note": "sauce"}',
        '  - part_1 {"position": 3, "note": "rice"}',
        '  - part_3 {"position": 4, "note": "salt"}',
    ]
    view = context.view("act")
    assert [(each.ref, each.within) for each in view.active] == [
        ("dish_1", None),
        ("part_1", "dish_1"),
        ("part_2", "dish_1"),
    ]
    assert context.render("think").count("part_1") == 1


@pytest.mark.usefixtures("keys")
def test_a_row_in_a_list_has_the_fields_that_were_shown_of_it(
    context: Context, call: Call
) -> None:
    """Those of another row in the list are not its own."""
    call("db_read", table="dishes", filters=named("Korma"), columns=["name", "parts.note"])
    call("db_read", table="parts", filters=is_("part_2"), columns=["position"])
    assert lines(context)[2:] == [
        '  - part_1 {"note": "rice"}',
        '  - part_2 {"position": 2, "note": "sauce"}',
    ]


@pytest.mark.usefixtures("keys")
def test_rows_that_totals_are_grouped_by_are_linked(context: Context, call: Call) -> None:
    """Their refs were shown, and nothing of them."""
    call("db_read", table="dishes", columns=["cuisine_id", "count(*)"])
    entries = context.conversation.activity().entries
    assert [(str(each.ref), each.action) for each in entries] == [("cuisine_1", "linked")]


def test_a_row_that_left_its_list_is_shown_by_itself(
    context: Context, call: Call, keys: Keys, tables: Engine
) -> None:
    """It is in the list of now, or in none."""
    call("db_read", table="dishes", filters=named("Korma"), columns=PARTS)
    call("db_update", table="parts", filters=is_("part_1"), data={"note": "basmati"})
    with Session(tables) as plain, plain.begin():
        plain.execute(update(Part).where(Part.note == "basmati").values(dish_id=keys["Soup"]))
    shown = lines(context)
    assert "- part_1 (updated in turn 0)" in shown
    assert shown.index("  parts:") == 1
    assert '  - part_2 {"position": 2, "note": "sauce"}' in shown


@pytest.mark.usefixtures("keys")
def test_a_row_that_was_never_shown_has_its_default_columns(
    context: Context, sessions: Sessions, conversation: Conversation
) -> None:
    """The user has written it, so the model may need it."""
    with sessions(conversation=conversation, by="user") as session:
        session.add(Dish(name="Dal", servings=3, photo=b"x"))
        session.commit()
    [line] = [line for line in lines(context) if "servings" in line]
    assert '"servings": 3' in line
    assert "photo" not in line


@pytest.mark.usefixtures("keys")
def test_rows_of_which_a_statement_showed_the_refs_alone_have_no_values(
    context: Context, call: Call
) -> None:
    """A row that others refer to is counted; its label is kept."""
    call("db_read", table="dishes", filters=named("Curry"), columns=["name", "cuisine_id"])
    assert lines(context) == [
        '- dish_1 "Curry" (read in turn 0)',
        '  {"cuisine_id": "cuisine_1", "_cuisine_id_label": "Thai"}',
    ]
    assert "".join(context.with_names(["from cuisine_1"])) == "from Thai"
    context.conversation.retain(["cuisine_1"], "liked")
    assert '- cuisine_1 "Thai", kept because "liked"' in lines(context)


def test_no_more_statements_for_more_rows(
    context: Context, call: Call, keys: Keys, tables: Engine
) -> None:
    """One for each table, relationship, and table of labels."""
    call("db_read", table="dishes", filters=named("Korma"), columns=[*PARTS, "cuisine_id"])
    with statements(tables) as few:
        context.render("act")
    with Session(tables) as plain, plain.begin():
        for n in range(20):
            plain.add(Dish(name=f"d{n}", parts=[Part(note="x")], cuisine_id=keys["Thai"]))
    call("db_read", table="dishes", columns=[*PARTS, "cuisine_id"])
    with statements(tables) as many:
        context.render("act")
    assert 3 <= len(many) <= len(few) + 1  # Korma has no cuisine, so there were no labels


@pytest.mark.usefixtures("keys")
def test_without_sessions_rows_are_shown_by_name_and_the_prompt_says_so(
    conversation: Conversation, toolset: Toolset, call: Call
) -> None:
    """It knows no values."""
    call("db_read", table="dishes", filters=named("Korma"))
    shown = Context(conversation, toolset=toolset).render("act")
    assert shown == f'{NOT_READ}\n\n- dish_1 "Korma" (read in turn 0)'


@pytest.mark.usefixtures("keys")
def test_nobody_is_told_to_read_rows_that_are_gone(
    conversation: Conversation, toolset: Toolset, call: Call
) -> None:
    """Where all rows that are shown are deleted."""
    call("db_delete", table="dishes", filters=named("Soup"))
    shown = Context(conversation, toolset=toolset).render("act")
    assert shown == '- dish_1 "Soup" (deleted in turn 0)'


@pytest.mark.usefixtures("keys")
def test_a_bound_toolset_brings_its_sessions(
    toolset: Toolset, sessions: Sessions, registry: RefRegistry
) -> None:
    """For the conversations that it opens, and their branches."""
    desk = toolset.bind(sessions, registry=registry)
    desk.call("chat-7", None, "db_read", {"table": "dishes", "columns": ["servings"]})
    chat = desk.conversation("chat-7", None)
    for context in (Context(chat), desk.context("chat-7", None), Context(chat.fork("chat-8"))):
        assert context.render("act").startswith(NOTE)
        assert "db_update" in context.prompt(Step("write", "x")).system


@pytest.mark.usefixtures("keys")
def test_the_session_of_a_prompt_is_closed(
    conversation: Conversation, toolset: Toolset, tables: Engine, call: Call
) -> None:
    """Also if the rows cannot be read."""
    closed: list[str] = []

    class Noting(RefSession):
        def close(self) -> None:
            closed.append("closed")
            super().close()

    call("db_read", table="dishes")
    sessions: Any = sessionmaker(tables, class_=Noting)
    Context(conversation, toolset=toolset, sessions=sessions).render("act")
    assert closed == ["closed"]
    broken = Toolset(MODELS, hooks={Dish: [Broken()]})
    with pytest.raises(ZeroDivisionError):
        Context(conversation, toolset=broken, sessions=sessions).render("act")
    assert closed == ["closed"] * 2


class Marking(Hooks):
    """Writes to rows whenever rows are read."""

    def before_read(self, read: Reading) -> None:
        """Mark all parts."""
        read.session.execute(update(Part).values(note="seen"))


@pytest.mark.usefixtures("keys")
def test_nothing_is_recorded_by_reading(
    sessions: Sessions, conversation: Conversation, call: Call
) -> None:
    """A prompt is not a use of its rows; nor is a hook's write an action of the model."""
    call("db_read", table="dishes", columns=PARTS)
    before = conversation.activity()
    conversation.begin_turn()
    toolset = Toolset(MODELS, hooks={Dish: [Marking()]}, expect="optional")
    assert '"seen"' in Context(conversation, toolset=toolset, sessions=sessions).render("act")
    assert conversation.activity().entries == before.entries


def test_drafts_are_shown_as_the_tools_show_them(
    context: Context, sessions: Sessions, conversation: Conversation, call: Call, keys: Keys
) -> None:
    """A mark stays a mark, and a hidden column hidden, in nested rows and documents too."""
    call("db_read", table="dishes", filters=named("Soup"), columns=["name"])
    extra = {"see": ["<dish_1>"]}
    parts = [{"position": 1, "note": "from <dish_1:hex>"}]
    data = {"name": "like <dish_1>", "servings": 77, "extra": extra, "parts": parts}
    made = call("db_create", table="dishes", data=data, draft=True)
    assert "error" not in made
    hiding = Toolset(MODELS, hidden=[Dish.servings, Part.position], expect="optional")
    hidden = Context(conversation, toolset=hiding, sessions=sessions)
    for shown in (context, hidden):
        prompt = shown.prompt(Step("write", "x"))
        for text in (shown.render("act"), prompt.user, shown.view("act").model_dump_json()):
            assert str(keys["Soup"]) not in text
            assert keys["Soup"].hex not in text
            assert "<dish_1>" in text
            assert ("77" in text) is (shown is context)
    assert "position" not in hidden.view("act").drafts[0].model_dump_json()
    without = Toolset(MODELS, drafts=False, expect="optional")
    assert not Context(conversation, toolset=without, sessions=sessions).view("act").drafts


def test_rows_are_those_of_the_conversations_owner(
    owned_engine: Engine, world: World, ownership: Ownership
) -> None:
    """A row that went to another owner is not visible, and only its old name is shown."""
    registry = RefRegistry(owned_engine)
    registry.create_tables()
    toolset = Toolset([Recipe], owner=ownership, expect="optional")
    sessions = sessionmaker(owned_engine, class_=RefSession)
    ann = world.users["ann"]
    desk = toolset.bind(sessions, registry=registry)
    asked = {"table": "recipes", "columns": ["name"]}
    assert desk.call("c", ann, "db_read", asked).value["count"] == 2
    context = desk.context("c", ann)
    assert "not visible" not in context.render("act")
    with Session(owned_engine) as plain, plain.begin():
        mine = plain.get_one(Recipe, world.recipes["ann"])
        mine.user_id, mine.name = world.users["bob"], "Caviar"
    for audience in get_args(Audience):
        shown = context.render(audience)
        assert "not visible" in shown
        assert "Caviar" not in shown
    with pytest.raises(SetupError, match="without owner"):
        Context(registry.conversation("d"), toolset=toolset, sessions=sessions)


@pytest.mark.asyncio
async def test_asynchronous_sessions_are_awaited(
    async_engine: AsyncEngine, chat: Conversation, toolset: Toolset
) -> None:
    """A prompt that is not awaited is refused with the remedy."""
    sessions = async_sessionmaker(async_engine, class_=AsyncRefSession)
    async with sessions(conversation=chat, by="model") as session:
        made = {"table": "dishes", "data": {"name": "Stew", "servings": 3}}
        assert "error" not in await toolset.call_async(session, "db_create", made)
    context = Context(chat, toolset=toolset, sessions=sessions)
    assert '"servings": 3' in await context.aio.render("act")
    assert '"servings": 3' in (await context.aio.prompt(Step("read", "x"))).user
    generate = Step("generate", "x")
    kept = {"action": "step_complete", "result_summary": "x", "drafts": [{**made, "label": "x"}]}
    decision = (await context.aio.prompt(generate)).decision.model_validate(kept)
    assert await context.aio.done(generate, decision) == ["gen_dish_1"]
    if chat.aio.is_async:
        return
    with pytest.raises(ContextError, match="await the same method"):
        context.render("act")


def test_a_row_that_is_back_is_shown_with_its_values(
    context: Context, call: Call, keys: Keys, tables: Engine
) -> None:
    """Whoever has deleted it, and whatever the registry has noted since."""
    call("db_read", table="dishes", filters=named("Soup"), columns=["name"])
    with Session(tables) as plain:
        plain.execute(delete(Dish).where(Dish.id == keys["Soup"]))
        plain.commit()
        assert lines(context) == ['- dish_1 "Soup" (deleted since turn 0)']
        plain.add(Dish(id=keys["Soup"], name="Soup again", servings=2))
        plain.commit()
    assert lines(context)[0] == '- dish_1 "Soup again" (restored)'


@pytest.mark.usefixtures("keys")
def test_nested_rows_are_not_counted_as_others(context: Context, call: Call) -> None:
    """They are listed, in their row."""
    call("db_read", table="dishes", filters=named("Korma"), columns=PARTS)
    assert "Not listed" not in context.render("act")
    assert "Not listed, and some may be deleted: part (2)." in context.render("think")


def test_a_mention_of_a_row_that_a_hook_hides_is_refused(
    sessions: Sessions, conversation: Conversation, keys: Keys
) -> None:
    """In the words for a row that does not exist, and nothing is recorded."""
    toolset = Toolset(MODELS, hooks={Dish: [OnlySoup()]}, expect="optional")
    context = Context(conversation, toolset=toolset, sessions=sessions)
    with sessions(conversation=conversation) as session:
        for key in (keys["Curry"], uuid.uuid4()):
            with pytest.raises(MentionError, match="names no row that can be seen"):
                context.heard(session, f"@[x](dish:{key})")
        assert context.heard(session, f"@[x](dish:{keys['Soup']})") == "dish_2"
    assert [str(each.ref) for each in conversation.activity().entries] == ["dish_2"]


class TakesRefs(Hooks):
    """Takes the refs out of rows, and puts text in place of related rows."""

    def __init__(self, *, nested: bool) -> None:
        self._nested = nested

    def after_read(self, read: Reading, rows: Any) -> None:
        """Change the rows."""
        assert read.model is Dish
        for row in rows:
            if self._nested:
                row["parts"] = ["rice", {"note": "sauce"}]
            else:
                del row["id"]


@pytest.mark.usefixtures("keys")
def test_hooks_may_change_refs_and_related_rows(
    sessions: Sessions, call: Call, conversation: Conversation
) -> None:
    """A row without its ref is not visible; what replaces related rows is a value."""
    call("db_read", table="dishes", filters=named("Korma"), columns=PARTS)
    for nested, expected in (
        (False, ["- dish_1 (not visible)"]),
        (True, ['- dish_1 "Korma" (read in turn 0)', '  {"parts": ["rice", {"note": "sauce"}]}']),
    ):
        hooks = {Dish: [TakesRefs(nested=nested)]}
        toolset = Toolset(MODELS, hooks=hooks, expect="optional")
        assert lines(Context(conversation, toolset=toolset, sessions=sessions)) == expected


def test_a_row_that_joins_a_list_has_the_values_of_its_neighbours(
    context: Context, call: Call, keys: Keys, tables: Engine
) -> None:
    """Though it was never shown itself, only retained."""
    call("db_read", table="dishes", filters=named("Korma"), columns=PARTS)
    with Session(tables) as plain:
        salt = Part(position=3, note="salt", dish_id=keys["Korma"])
        plain.add(salt)
        plain.commit()
        ref = context.conversation.refer(Part, salt.id)
    context.conversation.retain([ref], "liked")
    assert f'  - {ref} {{"position": 3, "note": "salt"}}' in lines(context)


def test_what_makes_no_sessions_is_refused(
    conversation: Conversation, toolset: Toolset, sessions: Sessions, session: RefSession
) -> None:
    """As where a toolset is bound: at once, not with the first prompt."""
    for wrong in (session, scoped_session(sessions), sessionmaker(class_=Session)):
        with pytest.raises(SetupError, match="to make sessions"):
            Context(conversation, toolset=toolset, sessions=wrong)  # type: ignore[arg-type]


def test_a_value_like_the_name_is_not_left_out(
    context: Context, call: Call, tables: Engine
) -> None:
    """Nulls are named apart: a field that is not there was not read."""
    with Session(tables) as plain, plain.begin():
        plain.add(Dish(name="Thai", code="Thai"))
        plain.add(Dish(name="Dal", cuisine=Cuisine(name="Dal")))
    call("db_read", table="dishes", columns=["name", "code", "cuisine_id"], order_by="name")
    assert lines(context) == [
        '- dish_1 "Dal" (read in turn 0)',
        '  {"name": "Dal", "cuisine_id": "cuisine_1", "_cuisine_id_label": "Dal"}',
        "  null: code",
        '- dish_2 "Thai" (read in turn 0)',
        '  {"name": "Thai", "code": "Thai"}',
        "  null: cuisine_id",
    ]


@pytest.mark.usefixtures("keys")
def test_calls_that_wait_name_their_rows(
    conversation: Conversation, registry: RefRegistry, sessions: Sessions
) -> None:
    """By refs and names, as far as a toolset shows them: the person who decides sees more."""
    rules: dict[str, Any] = {"expect": "optional", "consent": {Dish: ["delete"]}}
    desk = Toolset(MODELS, **rules).bind(sessions, registry=registry)
    chat = desk.conversation(conversation.id, None)
    soup = {"table": "dishes", "filters": named("Soup"), "expect": {"count": 1}}
    with sessions(conversation=chat) as session:  # by nobody: it is no activity
        desk.toolset.call(session, "db_read", {"table": "dishes", "filters": named("Soup")})
    assert desk.call(chat.id, None, "db_delete", soup).pending == 1
    masked = Toolset(MODELS, hooks={Dish: [Masking()]}, **rules)
    others = Toolset([Cuisine], consent={Cuisine: ["delete"]})
    for toolset, audience, rows in (
        (desk.toolset, "act", ' (dish_1 "Soup")'),
        (desk.toolset, "reply", ' ("Soup")'),
        (masked, "act", ' (dish_1 "***")'),
        (masked, "reply", ' ("***")'),
        (others, "act", ""),
    ):
        told = lines(Context(chat, toolset=toolset, sessions=sessions), audience)
        assert told == [f'- call 1, db_delete: "Delete 1 dish."{rows}: waits']


def test_waiting_calls_that_are_not_listed_are_counted(
    conversation: Conversation, registry: RefRegistry, sessions: Sessions, tables: Engine
) -> None:
    """However many there are, and only if there are more than a prompt lists."""
    with Session(tables) as plain, plain.begin():
        plain.add(Dish(name="Soup"))
    careful = Toolset(MODELS, expect="optional", consent={Dish: ["update"]})
    desk = careful.bind(sessions, registry=registry)
    chat, context = desk.conversation(conversation.id, None), desk.context(conversation.id)
    for n in range(1, 104):
        values = {"filters": named("Soup"), "data": {"servings": n}, "expect": {"count": 1}}
        assert desk.call(chat.id, None, "db_update", {"table": "dishes", **values}).pending == n
        if n in (100, 103):
            shown = context.render("act")
            assert shown.count("\n- call ") == 100
            note = "Older calls that a person decides, not listed: waiting (3)."
            assert (note in shown) is (n == 103)
    assert context.view().more_calls == {"waiting": 3}
    assert "not listed: waiting (102)." in context.render("act", 60)


@pytest.mark.usefixtures("keys")
@pytest.mark.parametrize("columns", [["id"], ["id", "name"]])
def test_a_row_that_cannot_be_read_has_its_name_if_it_was_shown(
    conversation: Conversation, sessions: Sessions, call: Call, columns: list[str]
) -> None:
    """The registry may know it from the application's own reads. A hook hides it in any case."""
    call("db_read", table="dishes", filters=named("Curry"), columns=columns)
    with sessions(conversation=conversation) as session:
        assert session.get_one(Dish, "dish_1").name == "Curry"

    class Filtered(RefSession):
        """The application's own filter."""

    @event.listens_for(Filtered, "do_orm_execute")
    def leave_out(execution: ORMExecuteState) -> None:
        only = with_loader_criteria(Dish, Dish.name != "Curry")
        execution.statement = execution.statement.options(only)

    filtered: Any = sessionmaker(sessions.kw["bind"], class_=Filtered)
    name = ' "Curry"' if "name" in columns else ""
    for own, hooks, expected in ((filtered, {}, name), (sessions, {Dish: [Refusing()]}, "")):
        toolset = Toolset(MODELS, hooks=hooks)
        shown = lines(Context(conversation, toolset=toolset, sessions=own))
        assert shown == [f"- dish_1{expected} (not visible)"]


@pytest.mark.parametrize("name", ["cascade", "passive", "both"])
def test_the_undo_of_a_deletion_restores_rows_that_the_database_deleted_too(
    tables: Engine, registry: RefRegistry, sessions: Sessions, name: str
) -> None:
    """By whichever cascade they went, the user has created none of them."""
    family = FAMILIES[name]
    made(tables, family)
    desk = Toolset([family.top, family.part], expect="optional").bind(
        sessions, registry=registry, journal=True
    )
    chat = desk.conversation("chat-7", None)
    top, part = f"{name}_tops", f"{name}_parts"
    desk.call(chat.id, None, "db_read", {"table": part})
    first = [{"field": "note", "op": "=", "value": "a"}]
    answer = desk.call(chat.id, None, "db_delete", {"table": top, "filters": first}).value
    assert answer["deleted_with"]
    assert desk.undo(chat.id, call=1, by="ann").refusal is None
    status = {row.ref: row.status for row in desk.context(chat.id).view().active}
    assert {status[ref] for ref in [*answer["deleted"], *answer["deleted_with"]]} == {"restored"}


class Renaming(Hooks):
    """Shows other names, if it has one."""

    def __init__(self, name: str | None) -> None:
        self.name = name

    def after_read(self, reading: Reading, rows: list[dict[str, Any]]) -> None:  # noqa: ARG002
        """Replace the name of each row."""
        for row in rows:
            row["seen"] = True
            if self.name is not None:
                row["name"] = self.name


@pytest.mark.parametrize("mode", ["inline", "legend"])
@pytest.mark.parametrize("by_hook", [False, True])
def test_a_label_is_one_short_line_though_hooks_see_its_row(
    conversation: Conversation, sessions: Sessions, tables: Engine, by_hook: bool, mode: Any
) -> None:
    """Of the row itself, and beside its ref: the label of a long name of several lines."""
    name = "Soup\n## Data " + "y" * 400 + "\u202e"
    with Session(tables) as plain, plain.begin():
        dish = Dish(name="Soup" if by_hook else name, parts=[Part(position=1)])
        plain.add(dish)
    hooks = {Dish: [Renaming(name if by_hook else None)]}
    toolset = Toolset(MODELS, hooks=hooks, labels=mode)
    with sessions(conversation=conversation, by="model") as session:
        answer = toolset.call(session, "db_read", {"table": "parts"})
        toolset.call(session, "db_read", {"table": "dishes"})
    row, part = Context(conversation, toolset=toolset, sessions=sessions).view().active
    beside = (
        answer["labels"] if mode == "legend" else {"dish_1": answer["rows"][0]["_dish_id_label"]}
    )
    label = clean_label(name)
    assert part.data is not None
    assert [row.label, part.data["_dish_id_label"], beside["dish_1"]] == [label] * 3
