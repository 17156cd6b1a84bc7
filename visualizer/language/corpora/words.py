"""The few hundred words of the small world."""

from __future__ import annotations

SHE = (
    *("Ada", "Anna", "Clara", "Ella", "Emma", "Grace", "Ida", "Jane", "Kate", "Lily"),
    *("Lucy", "Maria", "Mina", "Nora", "Olga", "Rosa", "Ruth", "Sara", "Tara", "Vera"),
)
HE = (
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
SPOTS = (
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
LIKED = (
    *("apples", "birds", "bread", "cats", "cheese", "chess", "dogs", "films", "flowers"),
    *("games", "honey", "horses", "jokes", "milk", "music", "nuts", "plums", "poems"),
    *("rain", "rice", "snow", "soup", "stories", "sugar", "sunshine", "tea"),
)
DOES = (
    *("climb", "cough", "dance", "dream", "eat", "hum", "jump", "laugh", "listen", "play"),
    *("read", "rest", "run", "shout", "sing", "sleep", "smile", "sneeze", "wait", "walk"),
    *("whisper", "work", "yawn"),
)
"""One alone does the same with an s."""
HOW = (
    *("again", "alone", "badly", "happily", "loudly", "quickly", "quietly", "sadly"),
    *("slowly", "softly", "well", "wildly"),
)
