/*
 * Leadership of one shard and the fire, as the statements do them (postgres/leadership.ts, statements/fire.ts):
 * two schedulers, terms that run out at any moment, a node that stops for any time between any two steps.
 *
 *   take    who finds the term free or run out, begins the next one; one transaction
 *   read    the due time, at any moment before the fire
 *   fire    one transaction: the term is still ours AND the timer still stands where it was read
 *
 * Shown: each planned time has one occurrence, whoever fires it, and nobody fires whose term was taken.
 * NO_TERM_CHECK, NO_EXPECTED_TIME and FIRE_IN_TWO_STEPS leave out one guard each; a counterexample must be found.
 */
#define NODES 2
#define TIMES 3
#define TERMS 4

#ifdef NO_TERM_CHECK
#define IN_TERM true
#else
#define IN_TERM term == mine
#endif
#ifdef NO_EXPECTED_TIME
#define AS_READ true
#else
#define AS_READ due == read
#endif

byte term = 0;             /* number of the term that stands in Postgres */
byte owner = NODES;        /* who holds it; NODES: nobody */
bool expired = true;
byte due = 0;              /* next planned time */
byte occurrences[TIMES];
bool fired_after_loss = false;

/* time goes on: a term may run out at any moment, renewed or not */
active proctype clock() {
  do
  :: !expired -> expired = true
  :: due == TIMES -> break
  od
}

active [NODES] proctype node() {
  byte mine = 0, read;
  bool holds = false;
  do
  :: due == TIMES -> break
  :: atomic { expired && term < TERMS && (!holds || owner != _pid - 1) ->
       term++; owner = _pid - 1; expired = false; mine = term; holds = true }
  :: atomic { holds && owner == _pid - 1 && expired -> expired = false }   /* a renewal, in time or late */
  :: holds && due < TIMES -> read = due;
     again:   /* here it may stop for as long as it likes, and an answer may be lost: the same is sent again */
#ifdef FIRE_IN_TWO_STEPS
     if
     :: term == mine && due == read ->
        occurrences[read]++;
        atomic { fired_after_loss = fired_after_loss || term != mine; due = read + 1 }
     :: else -> skip
     fi
#else
     atomic {
       if
       :: IN_TERM && AS_READ ->
          fired_after_loss = fired_after_loss || term != mine;
          occurrences[read]++;
          due = (due > read + 1 -> due : read + 1)
       :: else -> holds = (term == mine)
       fi
     };
     if
     :: true -> goto again
     :: true -> skip
     fi
#endif
  od
}

active proctype judge() {
  due == TIMES;
  assert(occurrences[0] == 1 && occurrences[1] == 1 && occurrences[2] == 1);
  assert(!fired_after_loss)
}
