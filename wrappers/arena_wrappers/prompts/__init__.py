"""Prompts: what models read, and how their replies are read."""

from arena_wrappers.prompts.formats import FORMATS as FORMATS
from arena_wrappers.prompts.formats import Instead as Instead
from arena_wrappers.prompts.formats import InvalidReply as InvalidReply
from arena_wrappers.prompts.formats import ReplyFormat as ReplyFormat
from arena_wrappers.prompts.formats import find_reply_format as find_reply_format
from arena_wrappers.prompts.messages import Message as Message
from arena_wrappers.prompts.messages import ask_again as ask_again
from arena_wrappers.prompts.messages import author_message as author_message
from arena_wrappers.prompts.messages import listed_actions as listed_actions
from arena_wrappers.prompts.messages import messages as messages
from arena_wrappers.prompts.messages import neutralise as neutralise
from arena_wrappers.prompts.options import DATE as DATE
from arena_wrappers.prompts.options import PROMPT_OPTIONS as PROMPT_OPTIONS
from arena_wrappers.prompts.options import HistoryMode as HistoryMode
from arena_wrappers.prompts.options import PromptOptions as PromptOptions
from arena_wrappers.prompts.options import SeatOptions as SeatOptions
from arena_wrappers.prompts.options import options_by_seat as options_by_seat
from arena_wrappers.prompts.options import seat_options as seat_options
from arena_wrappers.prompts.parsing import Parsing as Parsing
from arena_wrappers.prompts.parsing import after_reasoning as after_reasoning
from arena_wrappers.prompts.parsing import legal_texts as legal_texts
from arena_wrappers.prompts.parsing import parse_reply as parse_reply
from arena_wrappers.prompts.seating import Seating as Seating
from arena_wrappers.prompts.seating import SeatView as SeatView
