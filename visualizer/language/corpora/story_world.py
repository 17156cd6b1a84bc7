"""Generates short stories in simple English from a simulated world of a few hundred words.

Each line is a story. People and things stay where they are until they move or are moved, so that
every answer follows from earlier sentences. A pronoun refers to the subject of the previous
sentence, and verbs agree with their subjects.

Source: Weston et al. 2015, "Towards AI-Complete Question Answering" (simulated worlds).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

FEMALE_NAMES = (
    *("Ada", "Anna", "Clara", "Ella", "Emma", "Grace", "Ida", "Jane", "Kate", "Lily"),
    *("Lucy", "Maria", "Mina", "Nora", "Olga", "Rosa", "Ruth", "Sara", "Tara", "Vera"),
)
MALE_NAMES = (
    *("Adam", "Ben", "Carl", "Dan", "Emil", "Finn", "Hugo", "Ivan", "Jack", "Karl"),
    *("Leo", "Max", "Nick", "Omar", "Otto", "Paul", "Sam", "Tom", "Viktor", "Will"),
)
COLOURS = (
    *("red", "blue", "green", "yellow", "white", "black", "brown", "grey", "small", "big"),
    *("old", "new", "heavy", "light", "round", "long"),
)
THINGS = (
    *("apple", "bag", "ball", "basket", "bell", "book", "boot", "bottle", "bowl", "box"),
    *("brush", "button", "cake", "candle", "coat", "coin", "comb", "cup", "doll", "drum"),
    *("flag", "flower", "fork", "glass", "hammer", "hat", "jar", "kettle", "key", "kite"),
    *("knife", "ladder", "lamp", "leaf", "letter", "map", "mirror", "mug", "nail", "needle"),
    *("pan", "paper", "pear", "pen", "pillow", "plate", "pot", "ring", "rope", "scarf"),
    *("shell", "shoe", "spoon", "stick", "stone", "ticket", "towel", "toy", "watch", "wheel"),
)
LOCATIONS = (
    *("on the table", "on the chair", "on the shelf", "on the floor", "on the bench"),
    *("under the table", "under the chair", "under the bench", "under the window"),
    *("behind the door", "behind the curtain", "beside the door", "beside the wall"),
    *("in the corner", "in the cupboard", "in the drawer", "near the window", "near the stairs"),
)
ROOMS = (
    *("attic", "barn", "cellar", "church", "garage", "garden", "hall", "hotel", "kitchen"),
    *("library", "market", "museum", "office", "park", "school", "shop", "stable", "station"),
    *("theatre", "tower", "village", "yard"),
)
ANIMALS = (
    *("bear", "bird", "cat", "cow", "dog", "duck", "frog", "goat", "hen", "horse"),
    *("lion", "owl", "pig", "rabbit", "snake", "spider"),
)
LIKED_THINGS = (
    *("apples", "birds", "bread", "cats", "cheese", "chess", "dogs", "films", "flowers"),
    *("games", "honey", "horses", "jokes", "milk", "music", "nuts", "plums", "poems"),
    *("rain", "rice", "snow", "soup", "stories", "sugar", "sunshine", "tea"),
)
VERBS = (
    *("climb", "cough", "dance", "dream", "eat", "hum", "jump", "laugh", "listen", "play"),
    *("read", "rest", "run", "shout", "sing", "sleep", "smile", "sneeze", "wait", "walk"),
    *("whisper", "work", "yawn"),
)
"""Verbs that form the third person singular with s."""
ADVERBS = (
    *("again", "alone", "badly", "happily", "loudly", "quickly", "quietly", "sadly"),
    *("slowly", "softly", "well", "wildly"),
)

T = TypeVar("T")

CHARACTERS_PER_TOKEN = 4
"""Approximate number of characters per word token, which is a word with a space or a full stop."""
SENTENCES_PER_STORY = 16
"""Number of sentences that follow the introduction of a story."""


def generate_stories(size: int, seed: int) -> str:
    """Generate stories of at least ``size`` characters; the last story is complete."""
    # The only method of Random that gives the same numbers in every version of Python is random().
    draw = Random(seed).random
    stories: list[str] = []
    length = 0
    while length < size:
        stories.append(StoryWriter(draw).write_story())
        length += len(stories[-1]) + 1
    return "\n".join(stories)


@dataclass(slots=True)
class StoryPerson:
    """A person in a story. Each person is in a room, likes something and can hold things."""

    name: str
    is_female: bool
    room: str
    likes: str
    holds: list[StoryObject] = field(default_factory=list)

    @property
    def pronoun(self) -> str:
        return "She" if self.is_female else "He"


@dataclass(slots=True)
class StoryObject:
    """A thing in a story, which has an appearance and a location."""

    noun: str
    look: str
    room: str
    location: str

    @property
    def name(self) -> str:
        return f"the {self.look} {self.noun}"


class StoryWriter:
    """Writes a story: sentences that change or describe the current state of a world."""

    def __init__(self, draw: Callable[[], float]) -> None:
        self._draw = draw
        self._rooms = self._sample_distinct(ROOMS, 3)
        names = self._sample_distinct((*FEMALE_NAMES, *MALE_NAMES), 3)
        likes = self._sample_distinct(LIKED_THINGS, 3)
        self._people = [
            StoryPerson(name, name in FEMALE_NAMES, self._choose(self._rooms), liked)
            for name, liked in zip(names, likes, strict=True)
        ]
        looks = self._sample_distinct(COLOURS, 3)
        self._things = [
            StoryObject(noun, look, self._choose(self._rooms), self._choose(LOCATIONS))
            for noun, look in zip(self._sample_distinct(THINGS, 3), looks, strict=True)
        ]
        self._subject: StoryPerson | None = None  # subject of the last sentence

    def write_story(self) -> str:
        sentences = [f"{person.name} is in the {person.room}." for person in self._people]
        sentences += [
            f"{_with_article(thing.look)} {thing.noun} is {thing.location} in the {thing.room}."
            for thing in self._things
        ]
        sentences += [self._next_sentence() for _ in range(SENTENCES_PER_STORY)]
        return " ".join(sentences)

    def _next_sentence(self) -> str:
        person = self._choose(self._people)
        if self._subject and self._draw() < 0.4:
            person = self._subject
        return self._choose(_SENTENCE_KINDS)(self, person)

    def _move_person(self, person: StoryPerson) -> str:
        person.room = self._choose([room for room in self._rooms if room != person.room])
        return f"{self._name_or_pronoun(person)} goes to the {person.room}."

    def _move_two_people(self, person: StoryPerson) -> str:
        other = self._choose([other for other in self._people if other is not person])
        if other.room != person.room:
            return self._move_person(person)
        self._move_person(person)
        other.room = person.room
        self._subject = None
        how = f"They {self._choose(VERBS)} there."
        return f"{person.name} and {other.name} go to the {person.room}. {how}"

    def _take_thing(self, person: StoryPerson) -> str:
        if person.holds:
            return self._give_or_put_down_thing(person)
        held = [thing for other in self._people for thing in other.holds]
        near = [one for one in self._things if one.room == person.room and one not in held]
        if not near:
            return self._move_person(person)
        thing = self._choose(near)
        person.holds.append(thing)
        return f"{self._name_or_pronoun(person)} takes {thing.name}."

    def _give_or_put_down_thing(self, person: StoryPerson) -> str:
        near = [one for one in self._people if one.room == person.room and one is not person]
        thing = person.holds.pop()
        if near and self._draw() < 0.4:
            other = self._choose(near)
            other.holds.append(thing)
            return f"{self._name_or_pronoun(person)} gives {thing.name} to {other.name}."
        thing.room, thing.location = person.room, self._choose(LOCATIONS)
        return f"{self._name_or_pronoun(person)} puts {thing.name} {thing.location}."

    def _describe_action(self, person: StoryPerson) -> str:
        return f"{self._name_or_pronoun(person)} {self._choose(VERBS)}s {self._choose(ADVERBS)}."

    def _describe_animal(self, _: StoryPerson) -> str:
        self._subject = None
        animal, does, room = self._choose(ANIMALS), self._choose(VERBS), self._choose(self._rooms)
        if self._draw() < 0.5:
            return f"The {animal} {does}s in the {room}."
        return f"The {animal}s {does} in the {room}."

    def _describe_likes(self, person: StoryPerson) -> str:
        if self._draw() < 0.5:
            return f"{self._name_or_pronoun(person)} likes {person.likes}."
        self._subject = person
        return f"What does {person.name} like? {person.pronoun} likes {person.likes}."

    def _ask_about_person(self, person: StoryPerson) -> str:
        self._subject = person
        return f"Where is {person.name}? {person.pronoun} is in the {person.room}."

    def _ask_about_thing(self, _: StoryPerson) -> str:
        self._subject = None
        thing = self._choose(self._things)
        for person in self._people:
            if thing in person.holds:
                return f"Who has {thing.name}? {person.name} has it."
        return f"Where is {thing.name}? It is {thing.location} in the {thing.room}."

    def _name_or_pronoun(self, person: StoryPerson) -> str:
        """Return a name or, if the last sentence has the same subject, usually a pronoun."""
        again = person is self._subject and self._draw() < 0.8
        self._subject = person
        return person.pronoun if again else person.name

    def _choose(self, among: Sequence[T]) -> T:
        return among[int(self._draw() * len(among))]

    def _sample_distinct(self, among: Sequence[T], count: int) -> list[T]:
        """Sample distinct elements."""
        sampled: list[T] = []
        while len(sampled) < count:
            one = self._choose(among)
            if one not in sampled:
                sampled.append(one)
        return sampled


def _with_article(word: str) -> str:
    return f"An {word}" if word[0] in "aeiou" else f"A {word}"


_SENTENCE_KINDS: tuple[Callable[[StoryWriter, StoryPerson], str], ...] = (
    StoryWriter._move_person,
    StoryWriter._move_two_people,
    StoryWriter._take_thing,
    StoryWriter._take_thing,
    StoryWriter._describe_action,
    StoryWriter._describe_animal,
    StoryWriter._describe_likes,
    StoryWriter._ask_about_person,
    StoryWriter._ask_about_thing,
    StoryWriter._ask_about_thing,
)
"""The methods that write sentences; a method that is listed twice is chosen twice as often."""
