"""Names of entities, and types of keys."""

from __future__ import annotations

import enum
import subprocess
import sys
import uuid
from typing import Any, cast

import pytest
from sqlalchemy import Column, Enum, ForeignKey, MetaData, Table, Uuid
from sqlalchemy.dialects.postgresql import DOMAIN
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

from alfred_refs import EntityNameError, RefPolicy, RefRegistry
from alfred_refs.mapping.entities import Entities
from alfred_refs.mapping.key_columns import (
    EntityNames,
    KeyColumns,
    is_unique,
    key_type_of,
    names_other_column,
)
from alfred_refs.store.memory import MemoryStore
from tests.models import MealPlan


def mapped(name: str, base: type[Any] | None = None, **attributes: Any) -> type[Any]:
    """Map a new class with a UUID key, on a base of its own unless one is given."""
    parent = base or type("Base", (DeclarativeBase,), {})
    annotations = {"id": Mapped[uuid.UUID]}
    body = {"__tablename__": f"t_{uuid.uuid4().hex}", "__annotations__": annotations}
    return type(name, (parent,), body | {"id": mapped_column(primary_key=True)} | attributes)


def name_of(entity: Any, **policy: Any) -> str:
    """Name an entity under a policy."""
    return Entities(RefPolicy(**policy)).name_of(entity)


@pytest.mark.parametrize(
    ("class_name", "entity"),
    [
        ("MealPlan", "meal_plan"),
        ("HTTPServer", "http_server"),
        ("Recipe", "recipe"),
        ("Unit2", "unit2"),
        ("Sha256", "sha256"),
        ("Unit_2", "unit2"),
        ("OAuth2Token", "o_auth_2_token"),
    ],
)
def test_a_class_is_named_in_snake_case(class_name: str, entity: str) -> None:
    """After the class, not the table; `unit_2` would be a ref."""
    assert name_of(mapped(class_name)) == entity


@pytest.mark.parametrize(
    ("table", "entity"),
    [
        ("recipes", "recipe"),
        ("analyses", "analysis"),
        ("children", "child"),
        ("news", "news"),
        ("codes_2", "codes2"),
    ],
)
def test_a_table_without_class_is_named_in_the_singular(table: str, entity: str) -> None:
    """By a library: no letters are just stripped."""
    assert name_of(Table(table, MetaData(), Column("id", Uuid, primary_key=True))) == entity


def test_a_class_can_declare_its_name() -> None:
    """`__ref_name__` overrides the class's name."""
    assert name_of(mapped("RecipeRow", __ref_name__="recipe")) == "recipe"


def test_a_policy_can_name_classes_and_tables() -> None:
    """`RefPolicy(names=...)` is for classes and tables that cannot declare it."""
    table = Table("tbl_rcp", MetaData(), Column("id", Uuid, primary_key=True))

    assert name_of(MealPlan, names={MealPlan: "plan"}) == "plan"
    assert name_of(table, names={"tbl_rcp": "recipe"}) == "recipe"


def test_two_classes_of_one_name_are_refused() -> None:
    """The error names both classes and the remedy, at the first use of either."""
    base = type("Base", (DeclarativeBase,), {})
    # a base does not keep its classes
    classes = [mapped("Recipe", base, __module__=module) for module in ("menu", "archive")]

    with pytest.raises(EntityNameError, match=r"archive.*Recipe.*menu.*Recipe.*__ref_name__"):
        name_of(classes[0])


def test_two_classes_of_one_name_on_two_bases_are_refused_when_both_are_used() -> None:
    """Classes of unrelated bases clash only if both are used."""
    entities = Entities(RefPolicy())
    one, other = mapped("Recipe"), mapped("Recipe")
    entities.name_of(one)

    with pytest.raises(EntityNameError, match="both have the entity name 'recipe'"):
        entities.name_of(other)


def test_a_name_of_classes_on_two_bases_is_ambiguous() -> None:
    """Unless one of them is used, or the policy renames it."""
    one, other = (mapped("Goulash", __module__=module) for module in ("menu", "archive"))

    with pytest.raises(EntityNameError, match=r"archive.*Goulash.*menu.*Goulash.*__ref_name__"):
        EntityNames(RefPolicy()).find_table_of("goulash")
    names = EntityNames(RefPolicy())
    names.of_table(one.__table__)
    assert names.find_table_of("goulash") is one.__table__
    renamed = EntityNames(RefPolicy(names={one: "stew"}))
    assert renamed.find_table_of("goulash") is other.__table__


def test_a_draft_of_an_ambiguous_name_is_edited_once_its_class_is_used() -> None:
    """Its content is not checked against the fields of another class."""
    one, _other = (
        mapped("Borscht", id=mapped_column(primary_key=True, default=uuid.uuid4), __module__=name)
        for name in ("menu", "archive")
    )
    store = MemoryStore()
    RefRegistry(store=store).conversation("chat-7").draft(one, {})
    chat = RefRegistry(store=store).conversation("chat-7")

    with pytest.raises(EntityNameError, match=r"archive.*Borscht.*menu.*Borscht"):
        chat.edit_draft("gen_borscht_1", {})
    [draft] = chat.drafts(one)
    assert chat.edit_draft(draft.ref, {}).version == 2


@pytest.mark.parametrize("name", ["gen_recipe", "recipe_2", "Rezept", "a b", ""])
def test_a_name_that_reads_as_a_ref_or_draft_is_refused(name: str) -> None:
    """The error has the remedy."""
    class_ = mapped("Recipe")

    with pytest.raises(EntityNameError, match=r"'gen_'.*RefPolicy\(names="):
        name_of(class_, names={class_: name})


def test_a_class_that_cannot_be_named_leaves_others_alone() -> None:
    """It is refused when it is used itself, or by a foreign key of a class that is."""
    base = type("Base", (DeclarativeBase,), {})
    key = mapped("Key", base)
    dish = mapped("Dish", base)
    lock = mapped("Lock", base, key_id=mapped_column(ForeignKey(key.__table__.c.id)))
    entities = Entities(RefPolicy())

    assert entities.name_of(dish) == "dish"
    for class_ in (key, lock, key):
        with pytest.raises(EntityNameError, match=r"'key' of class .*Key'.*__ref_name__"):
            entities.of_class(class_)
    assert entities.name_of(dish) == entities.of_class(dish).own_entity == "dish"


def test_without_the_library_a_table_is_refused_with_the_remedy() -> None:
    """Without the extra `tables`, the policy must name a table that no class maps."""
    program = (
        "import sys; sys.modules['inflect'] = None\n"
        "from sqlalchemy import *; from alfred_refs import *\n"
        "from alfred_refs.mapping.entities import Entities\n"
        "table = Table('recipes', MetaData(), Column('id', Uuid, primary_key=True))\n"
        "print(Entities(RefPolicy(names={'recipes': 'recipe'})).name_of(table))\n"
        "try: Entities(RefPolicy()).name_of(table)\n"
        "except EntityNameError as error: print(error)\n"
    )
    assert printed_by(program) == [
        "recipe",
        (
            "table 'recipes' has no mapped class to be named by; "
            "install alfred-refs[tables], or name it by RefPolicy(names={...})"
        ),
    ]


def table_of(class_: type[Any]) -> Table:
    """Return the table of a mapped class."""
    return cast(Table, class_.__table__)


def test_a_table_of_two_entity_names_is_refused_at_each_use() -> None:
    """With all classes of its base, until the policy names the table."""

    class Plain(DeclarativeBase):
        """Of this test."""

    class First(Plain):
        __tablename__ = "things"
        id: Mapped[int] = mapped_column(primary_key=True)

    class Second(Plain):
        __table__ = First.__table__

    class Other(Plain):
        __tablename__ = "others"
        id: Mapped[int] = mapped_column(primary_key=True)

    names = EntityNames(RefPolicy())
    for class_ in (Other, First, Second, Other):
        with pytest.raises(EntityNameError, match="'things' is mapped by classes of two entity"):
            names.of_table(table_of(class_))
    names = EntityNames(RefPolicy(names={"things": "thing"}))
    found = [names.of_table(table_of(each)) for each in (Other, Second)]
    assert found == ["other", "thing"]


def test_members_of_an_enumeration_are_data() -> None:
    """They are no texts, though `Enum` is a kind of `String`; choices that are texts are."""
    kind = enum.Enum("kind", ["RED", "BLUE"])

    assert key_type_of(Enum(kind)) is None
    assert key_type_of(Enum("red", "blue")) == "string"


def test_the_library_is_imported_without_checks_of_its_own() -> None:
    """Instrumenting them takes seconds at each start; typeguard stays as it was."""
    program = (
        "import typeguard; before = typeguard.typechecked\n"
        "from concurrent.futures import ThreadPoolExecutor as Pool\n"
        "from alfred_refs.mapping import singular\n"
        "print(*Pool(8).map(singular, ['companies', 'status'] * 4))\n"
        "import inflect\n"
        "print(typeguard.typechecked is before)\n"
        "print([n for n in inflect.engine.plural.__code__.co_names if 'check_' in n])\n"
    )
    assert printed_by(program) == ["company status " * 3 + "company status", "True", "[]"]


def printed_by(program: str) -> list[str]:
    """Run a program in a process of its own, and return the lines that it prints."""
    command = [sys.executable, "-c", program]
    return subprocess.check_output(command, text=True).splitlines()


def test_columns_of_domains_are_compared_by_identity() -> None:
    """SQLAlchemy 2.1 warns of `==` on them, by which `in` looks through a list."""
    policy, metadata, domain = RefPolicy(), MetaData(), DOMAIN("row_key", Uuid())

    def foreign_key(name: str) -> Column[Any]:
        return Column(f"{name}_id", domain, ForeignKey(f"{name}s.{name}_id"), primary_key=True)

    Table("shops", metadata, Column("shop_id", domain, primary_key=True))
    Table("goods", metadata, Column("good_id", domain, primary_key=True))
    offers = Table("offers", metadata, foreign_key("shop"), foreign_key("good"))
    declared: Column[Any] = Column("offer", domain, info={"ref": "offers.good_id"})
    notes = Table("notes", metadata, Column("other", domain), declared)
    columns = KeyColumns(policy, EntityNames(policy))
    found = [columns.of(each) for each in (*offers.columns, *notes.columns)]
    assert [each and each.entity for each in found] == ["shop", "good", None, "offer"]
    assert not any(map(names_other_column, (*offers.columns, *notes.columns)))
    assert not is_unique(declared)
