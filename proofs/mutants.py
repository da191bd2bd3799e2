"""Which mutants of the specification exist: each is one small change in one function's source.

Left alone is what decides nothing: docstrings, messages and the checks that only raise one, annotations, defaults, the
values of enums and of named constants; and the laws, which are what judges. `__post_init__` only validates.
"""

import ast
import copy
import importlib
import inspect
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any, NamedTuple

from slotproof import spec

JUDGES = frozenset({"__init__", "laws", "transition"})
"""Files of the specification that are not mutated: the laws, what they look at, and the list of names."""

VALIDATION = frozenset({"__init__", "__post_init__", "_require_block_size"})
"""Functions that only refuse impossible configurations, or carry a message."""

UNREAD_FIELDS = frozenset({"annotation", "returns", "decorator_list", "args", "type_params"})
"""Parts of a function that are no step of it; of a call, `args` are read."""


@dataclass(frozen=True, slots=True)
class Mutant:
    """One change. `id` counts the mutants of one kind in one function, so that it outlives changes elsewhere."""

    id: str
    module: str
    function: str
    kind: str
    change: str
    code: CodeType


@dataclass(frozen=True, slots=True)
class Signature:
    """The annotations of a function's parameters and of its result, and for a method the class of its receiver."""

    parameters: tuple[str, ...]
    result: str
    receiver: str | None = None


Signatures = dict[tuple[str, int | None], Signature]
"""By a function's name and None, or a method's name and how many arguments it takes: classes share names."""


class Place(NamedTuple):
    """Where a node hangs in the tree."""

    parent: ast.AST
    field: str
    position: int | None

    @property
    def node(self) -> ast.AST:
        """What hangs there."""
        held = getattr(self.parent, self.field)
        return held if self.position is None else held[self.position]  # type: ignore[no-any-return]

    def put(self, node: ast.AST) -> None:
        """Hang another node there."""
        if self.position is None:
            setattr(self.parent, self.field, node)
        else:
            getattr(self.parent, self.field)[self.position] = node


class Tidy(ast.NodeTransformer):
    """Gives changes that come to one thing one form: what does nothing is left out."""

    def visit_Pass(self, _: ast.Pass) -> None:
        """Nothing is done."""

    def visit_Assign(self, node: ast.Assign) -> ast.AST | None:
        """A name keeps its value."""
        same = len(node.targets) == 1 and ast.unparse(node.targets[0]) == ast.unparse(node.value)
        return None if same else node

    def visit_If(self, node: ast.If) -> ast.AST | None:
        """Nothing is done under a condition."""
        self.generic_visit(node)
        return node if node.body or node.orelse else None

    def visit_For(self, node: ast.For) -> ast.AST | None:
        """Nothing is done in every turn."""
        self.generic_visit(node)
        return node if node.body else None


class Context(NamedTuple):
    """What a mutator knows besides the node: the signatures, and the statements that can be left out."""

    signatures: Signatures
    steps: frozenset[ast.stmt]


Mutator = Callable[[Place, Context], Iterator[ast.AST]]


# What stands for what.

COMPARISONS: Mapping[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
HAVE_AN_OPPOSITE = (ast.Eq, ast.NotEq, ast.Is, ast.IsNot, ast.In, ast.NotIn)
OPERATORS: Mapping[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.FloorDiv,
    ast.FloorDiv: ast.Mult,
    ast.Div: ast.Mult,
    ast.Mod: ast.FloorDiv,
}
EXTREMES = {"imin": "max", "imax": "min"}
LOOPS = ("repeat", "foreach")
SCALARS = ("int", "bool", "str", "float")

SYMMETRIC: Mapping[str, frozenset[tuple[int, int]]] = {
    "imin": frozenset({(0, 1)}),
    "imax": frozenset({(0, 1)}),
    "slots_needed": frozenset({(0, 1), (1, 2)}),
    "tokens_to_cache": frozenset({(0, 1)}),
    "blocks_missing": frozenset({(1, 2)}),
    "is_short": frozenset({(0, 1)}),
    "window_admission_cap": frozenset({(0, 1)}),
}
"""Arguments whose order is no matter; a test proves it."""

CONFUSABLE = (
    ("num_new_tokens", "num_lookahead_tokens"),
    ("num_new_tokens", "num_external_computed_tokens"),
    ("call.num_computed_tokens", "call.request.num_computed_tokens"),
    ("request.num_tokens", "request.num_computed_tokens"),
    ("request.num_computed_tokens", "request.num_in_flight_tokens"),
    ("hit.num_tokens", "request.num_tokens"),
    ("request.token_ids", "request.prefix_keys"),
    ("call.delay_cache_blocks", "call.full_sequence_must_fit"),
    ("call.has_scheduled_reqs", "call.full_sequence_must_fit"),
    ("config.max_model_len", "config.max_in_flight_tokens"),
    ("config.num_blocks", "config.usable_blocks"),
    ("self.window", "self.block_size"),
    ("scan.run", "scan.end"),
    ("Status.WAITING", "Status.RUNNING"),
    ("Status.PREEMPTED", "Status.RUNNING"),
    ("Reason.WHOLE_PROMPT", "Reason.STEP"),
    ("FreeOrder.LRU", "FreeOrder.UNHASHED_FIRST"),
)
"""Attributes of one kind, as they end in the source: each is put in the other's place."""


# The mutators: what can stand in a node's place.


def other_comparisons(place: Place, _: Context) -> Iterator[ast.AST]:
    """`<` becomes `<=`, `==` becomes `!=`, and back."""
    node = place.node
    if isinstance(node, ast.Compare):
        for index, operator in enumerate(node.ops):
            other = COMPARISONS[type(operator)]()
            yield changed(node, ops=[*node.ops[:index], other, *node.ops[index + 1 :]])


def other_arithmetic(place: Place, _: Context) -> Iterator[ast.AST]:
    """`+` becomes `-`, `//` becomes `*`, and back; tuples have no such operator."""
    node = place.node
    if isinstance(node, ast.BinOp) and type(node.op) in OPERATORS and not is_tuple(node):
        yield changed(node, op=OPERATORS[type(node.op)]())


def other_constants(place: Place, _: Context) -> Iterator[ast.AST]:
    """A number becomes one more, a truth value its opposite."""
    node = place.node
    if isinstance(node, ast.Constant):
        if isinstance(node.value, bool):
            yield ast.Constant(not node.value)
        elif isinstance(node.value, int | float):
            yield ast.Constant(node.value + 1)


def other_connectives(place: Place, _: Context) -> Iterator[ast.AST]:
    """`and` becomes `or`, and back."""
    node = place.node
    if isinstance(node, ast.BoolOp):
        yield changed(node, op=ast.Or() if isinstance(node.op, ast.And) else ast.And())


def fewer_conjuncts(place: Place, _: Context) -> Iterator[ast.AST]:
    """One part of an `and` or an `or` is dropped."""
    node = place.node
    if isinstance(node, ast.BoolOp):
        for index in range(len(node.values)):
            others = [*node.values[:index], *node.values[index + 1 :]]
            yield others[0] if len(others) == 1 else changed(node, values=others)


def other_extremes(place: Place, _: Context) -> Iterator[ast.AST]:
    """The smaller becomes the larger, and back; by Python's own name, for not every file imports both."""
    node = place.node
    if isinstance(node, ast.Call) and name_of(node) in EXTREMES:
        yield changed(node, func=ast.Name(EXTREMES[name_of(node)], ast.Load()))


def skipped_steps(place: Place, context: Context) -> Iterator[ast.AST]:
    """A statement is left out, or a call that changes a value gives the value as it was."""
    node = place.node
    if isinstance(node, ast.stmt) and node in context.steps:
        yield ast.Pass()
    elif isinstance(node, ast.Call) and name_of(node) == "replace":
        for index in range(len(node.keywords)):
            yield changed(node, keywords=[*node.keywords[:index], *node.keywords[index + 1 :]])
    elif isinstance(node, ast.Call):
        unchanged = value_before(node, context.signatures)
        if unchanged is not None:
            yield unchanged


def skipped_loops(place: Place, _: Context) -> Iterator[ast.AST]:
    """No turn is taken."""
    node = place.node
    if isinstance(node, ast.For):
        yield ast.Pass()
    elif isinstance(node, ast.Call) and name_of(node) in LOOPS:
        yield node.args[2]


def negated_conditions(place: Place, _: Context) -> Iterator[ast.AST]:
    """The other side of a branch is taken."""
    node = place.node
    if place.field in ("test", "ifs") and isinstance(node, ast.expr):
        yield negated(node)


def one_sided_returns(place: Place, _: Context) -> Iterator[ast.AST]:
    """One side of a choice is always taken; an early return never or always."""
    node = place.node
    if isinstance(node, ast.IfExp):
        yield node.body
        yield node.orelse
    elif isinstance(node, ast.If) and returns(node):
        yield ast.Pass()
    elif isinstance(place.parent, ast.If) and place.field == "test" and returns(place.parent):
        yield ast.Constant(True)


def swapped_arguments(place: Place, context: Context) -> Iterator[ast.AST]:
    """Two arguments of one type change places."""
    node = place.node
    if not isinstance(node, ast.Call):
        return
    signature = signature_of(node, context.signatures)
    for one, other in neighbours(signature.parameters[: len(node.args)] if signature else ()):
        same = ast.dump(node.args[one]) == ast.dump(node.args[other])
        if not same and (one, other) not in SYMMETRIC.get(name_of(node), ()):
            arguments = list(node.args)
            arguments[one], arguments[other] = arguments[other], arguments[one]
            yield changed(node, args=arguments)


def other_fields(place: Place, _: Context) -> Iterator[ast.AST]:
    """An attribute gives way to one that it may be mistaken for."""
    node = place.node
    if not isinstance(node, ast.Attribute) or not isinstance(node.ctx, ast.Load):
        return
    text = ast.unparse(node)
    for pair in CONFUSABLE:
        for ending, other in (pair, pair[::-1]):
            if f".{text}".endswith(f".{ending}"):
                yield ast.parse(text.removesuffix(ending) + other, mode="eval").body


MUTATORS: Mapping[str, Mutator] = {
    "compare": other_comparisons,
    "arithmetic": other_arithmetic,
    "constant": other_constants,
    "connective": other_connectives,
    "conjunct": fewer_conjuncts,
    "extreme": other_extremes,
    "step": skipped_steps,
    "loop": skipped_loops,
    "negation": negated_conditions,
    "return": one_sided_returns,
    "arguments": swapped_arguments,
    "field": other_fields,
}
"""By the kind of the mutants they make."""


# What the mutators ask.


def changed(node: ast.AST, **fields: Any) -> ast.AST:
    """The node with other fields."""
    other = copy.copy(node)
    for name, value in fields.items():
        setattr(other, name, value)
    return other


def negated(node: ast.expr) -> ast.expr:
    """`not node`, in the shortest form."""
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        return node.operand
    if isinstance(node, ast.Compare) and len(node.ops) == 1 and isinstance(node.ops[0], HAVE_AN_OPPOSITE):
        return ast.Compare(node.left, [COMPARISONS[type(node.ops[0])]()], node.comparators)
    return ast.UnaryOp(ast.Not(), node)


def is_tuple(node: ast.AST) -> bool:
    """Whether an operand is written as a tuple or a slice."""
    if isinstance(node, ast.BinOp):
        return is_tuple(node.left) or is_tuple(node.right)
    return isinstance(node, ast.Tuple) or (isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Slice))


def name_of(call: ast.Call) -> str:
    """The name of the function or method that is called."""
    if isinstance(call.func, ast.Attribute):
        return call.func.attr
    return call.func.id if isinstance(call.func, ast.Name) else ""


def signature_of(call: ast.Call, signatures: Signatures) -> Signature | None:
    """The signature of what is called, None for what the specification does not define."""
    arity = len(call.args) if isinstance(call.func, ast.Attribute) else None
    return signatures.get((name_of(call), arity))


def value_before(call: ast.Call, signatures: Signatures) -> ast.AST | None:
    """The argument or receiver that has the type of the result, if a call takes a value and gives a changed one."""
    signature = signature_of(call, signatures)
    if signature is None or signature.result in SCALARS or name_of(call) in LOOPS:
        return None
    if isinstance(call.func, ast.Attribute):
        return call.func.value if signature.receiver == signature.result else None
    alike = [index for index, kind in enumerate(signature.parameters) if kind == signature.result]
    return call.args[alike[0]] if len(alike) == 1 and alike[0] < len(call.args) else None


def neighbours(kinds: tuple[str, ...]) -> Iterator[tuple[int, int]]:
    """Each position, and the next one of the same kind."""
    for one, kind in enumerate(kinds):
        if kind in kinds[one + 1 :]:
            yield one, kinds.index(kind, one + 1)


def returns(branch: ast.If) -> bool:
    """Whether a branch without an `else` can end the function."""
    return not branch.orelse and any(isinstance(node, ast.Return) for node in ast.walk(branch))


# The walk through a source.


def signatures_in(tree: ast.Module) -> Signatures:
    """The functions, methods and constructors that a source defines."""
    found: Signatures = {}
    for node in tree.body:
        if isinstance(node, ast.FunctionDef):
            found[node.name, None] = signature(node)
        elif isinstance(node, ast.ClassDef):
            fields = tuple(annotation(part.annotation) for part in node.body if isinstance(part, ast.AnnAssign))
            found[node.name, None] = Signature(fields, node.name)
            for method in functions_of(node):
                found[method.name, len(method.args.args) - 1] = signature(method, node.name)
    return found


def signature(function: ast.FunctionDef, receiver: str | None = None) -> Signature:
    """A function's signature; a method's receiver is no parameter."""
    parameters = function.args.args[1:] if receiver else function.args.args
    return Signature(
        tuple(annotation(parameter.annotation) for parameter in parameters), annotation(function.returns), receiver
    )


def annotation(node: ast.expr | None) -> str:
    """An annotation as text, without the quotes of a forward reference."""
    return ast.unparse(node).strip("'") if node is not None else ""


def functions_of(node: ast.Module | ast.ClassDef) -> Iterator[ast.FunctionDef]:
    """The functions in a body."""
    for part in node.body:
        if isinstance(part, ast.FunctionDef):
            yield part


def steps_of(body: list[ast.stmt], known: frozenset[str]) -> Iterator[ast.stmt]:
    """Statements that can be left out: calls for their effect, changes of a name already bound, conditional ones."""
    for statement in body:
        blocks = [block for field in ("body", "orelse") if (block := getattr(statement, field, None))]
        bound = names_bound_by(statement)
        rebinds = isinstance(statement, ast.Assign) and bound <= known
        if rebinds or is_call(statement) or (isinstance(statement, ast.If) and not returns(statement)):
            yield statement
        inside = frozenset(bound) if isinstance(statement, ast.FunctionDef) else known | bound
        for block in blocks:
            yield from steps_of(block, inside)
        known = inside if isinstance(statement, ast.Assign) else known


def names_bound_by(statement: ast.stmt) -> frozenset[str]:
    """The names a statement gives a value, for its own body or for what follows it."""
    if isinstance(statement, ast.FunctionDef):
        return frozenset(parameter.arg for parameter in (*statement.args.args, *statement.args.kwonlyargs))
    targets = statement.targets if isinstance(statement, ast.Assign) else [getattr(statement, "target", statement)]
    names = [node for target in targets if isinstance(target, ast.expr) for node in ast.walk(target)]
    return frozenset(node.id for node in names if isinstance(node, ast.Name))


def is_call(statement: ast.stmt) -> bool:
    """Whether a statement is a call for its effect."""
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call)


def places_in(node: ast.AST) -> Iterator[Place]:
    """Every place below a node that decides something, from the outside in."""
    for field, held in ast.iter_fields(node):
        if isinstance(held, list):
            places = [Place(node, field, index) for index in range(len(held))]
        else:
            places = [Place(node, field, None)]
        for place in places:
            if isinstance(place.node, ast.AST) and not is_silent(place):
                yield place
                yield from places_in(place.node)


def is_silent(place: Place) -> bool:
    """Whether what hangs there decides nothing: a docstring, a message, a check that only raises, an annotation."""
    node = place.node
    if isinstance(place.parent, ast.FunctionDef) and place.field in UNREAD_FIELDS:
        return True
    if isinstance(node, ast.If):
        return all(isinstance(part, ast.Raise) for part in node.body)
    docstring = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    only_checks = isinstance(node, ast.keyword) and node.arg == "strict"
    return docstring or only_checks or isinstance(node, ast.Raise | ast.JoinedStr)


def mutants_in(module: str, source: str, filename: str, signatures: Signatures) -> Iterator[Mutant]:
    """The mutants of one source, in its order."""
    tree = ast.parse(source)
    for function in functions_of(tree):
        yield from mutants_of(module, function, None, filename, signatures)
    for owner in (node for node in tree.body if isinstance(node, ast.ClassDef)):
        for method in functions_of(owner):
            yield from mutants_of(module, method, owner, filename, signatures)


def mutants_of(
    module: str, function: ast.FunctionDef, owner: ast.ClassDef | None, filename: str, signatures: Signatures
) -> Iterator[Mutant]:
    """The mutants of one function, those of the functions inside it included."""
    if function.name in VALIDATION:
        return
    qualname = f"{owner.name}.{function.name}" if owner else function.name
    alone = ast.Module([changed(owner, body=[function]) if owner else function], [])  # type: ignore[list-item]
    numbers: Counter[str] = Counter()
    for kind, before, after in changes_of(function, signatures):
        numbers[kind] += 1
        code = code_of(compile(alone, filename, "exec"), qualname)
        change = f"{words(before)}  ->  {words(after)}"
        yield Mutant(f"{module}.{qualname}:{numbers[kind]} {kind}", module, qualname, kind, change, code)


def changes_of(function: ast.FunctionDef, signatures: Signatures) -> Iterator[tuple[str, ast.AST, ast.AST]]:
    """The kind of each change, and what stood and stands there; the function is changed until the next is asked for."""
    context = Context(signatures, frozenset(steps_of([function], frozenset())))
    seen, known = {form_of(function)}, names_in(function) | set(EXTREMES.values())
    for place in list(places_in(function)):
        original = place.node
        for kind, mutator in MUTATORS.items():
            for node in [node for node in mutator(place, context) if names_in(node) <= known]:
                place.put(ast.fix_missing_locations(ast.copy_location(node, original)))
                form = form_of(function)
                if form not in seen:
                    seen.add(form)
                    yield kind, original, node
                place.put(original)


def names_in(node: ast.AST) -> set[str]:
    """The names that a piece of source uses or binds."""
    parts = list(ast.walk(node))
    return {part.id for part in parts if isinstance(part, ast.Name)} | {
        part.arg for part in parts if isinstance(part, ast.arg)
    }


def form_of(function: ast.FunctionDef) -> str:
    """Equal for two functions whose sources differ only in what does nothing."""
    return ast.dump(Tidy().visit(copy.deepcopy(function)))


def words(node: ast.AST) -> str:
    """A piece of source in one line."""
    return " ".join(ast.unparse(node).split())


def code_of(code: CodeType, qualname: str) -> CodeType:
    """The code of a function somewhere inside a compiled source."""
    name, _, rest = qualname.partition(".")
    (inner,) = (part for part in code.co_consts if isinstance(part, CodeType) and part.co_name == name)
    return code_of(inner, rest) if rest else inner


# The specification.


@cache
def specification_mutants() -> tuple[Mutant, ...]:
    """All mutants, file after file."""
    folder = Path(spec.__path__[0])
    files = {path.stem: path for path in sorted(folder.glob("*.py")) if path.stem not in JUDGES}
    sources = {name: path.read_text(encoding="utf-8") for name, path in files.items()}
    signatures: Signatures = {}
    for source in sources.values():
        signatures |= signatures_in(ast.parse(source))
    return tuple(
        mutant for name, source in sources.items() for mutant in mutants_in(name, source, str(files[name]), signatures)
    )


def function_of(mutant: Mutant) -> FunctionType:
    """The function that a mutant changes, as it is imported now."""
    found = named(mutant)
    if isinstance(found, property):
        found = found.fget
    elif isinstance(found, classmethod):
        found = found.__func__
    function = inspect.unwrap(found)
    assert isinstance(function, FunctionType)
    return function


def named(mutant: Mutant) -> Any:
    """What has the function's name: the function, or what is wrapped around it."""
    found: Any = importlib.import_module(f"{spec.__name__}.{mutant.module}")
    for name in mutant.function.split("."):
        found = inspect.getattr_static(found, name)
    return found


def install(mutant: Mutant) -> None:
    """Change the function for all who have it, in this process and for good; forget what it had answered."""
    function_of(mutant).__code__ = mutant.code
    forget = getattr(named(mutant), "cache_clear", None)
    if forget is not None:
        forget()
