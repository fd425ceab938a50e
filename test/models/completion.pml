/*
 * Ends in batches (engine/completer.ts): the handler has answered, the end waits in memory, a batch is sent, the
 * commit happens or not, its answer comes or not, the process dies at any of these steps.
 *
 *   gather   an end goes into the batch; its slot stays taken
 *   send     one transaction for all: a run that is still held leaves `ready`, with its end on record
 *   answer   frees the slots; without one the same batch is sent again
 *
 * Shown: at rest every run has its end on record, once, whatever was lost on the way. FREE_BEFORE_COMMIT forgets a
 * batch when it is sent, and APPLY_TWICE takes an end for a run that is no longer held; a counterexample must be
 * found.
 */
#define RUNS 2
#define CRASHES 1
#define LOST 2

bool held[RUNS];            /* in `ready`, by the session of this process */
byte recorded[RUNS];        /* ends on record */
bool pending[RUNS];         /* in memory: answered by the handler, not acknowledged */
bool running[RUNS];         /* in memory: the handler is at work */
bool dead = false;
byte crashes = 0, losses = 0;

inline apply() {
  atomic {
    i = 0;
    do
    :: i < RUNS ->
       if
#ifdef APPLY_TWICE
       :: pending[i] -> recorded[i]++; held[i] = false
#else
       :: pending[i] && held[i] -> recorded[i]++; held[i] = false
#endif
       :: else -> skip
       fi;
       i++
    :: else -> break
    od
  }
}

inline forget() {
  i = 0;
  do
  :: i < RUNS -> pending[i] = false; i++
  :: else -> break
  od
}

active proctype process() {
  byte i;
  atomic {
    held[0] = true; held[1] = true;
    running[0] = true; running[1] = true
  };
  do
  /* a handler answers */
  :: atomic { running[0] -> running[0] = false; pending[0] = true }
  :: atomic { running[1] -> running[1] = false; pending[1] = true }
  /* a batch is sent */
  :: pending[0] || pending[1] ->
     if
     :: atomic { losses < LOST -> losses++ };           /* it is lost before the commit */
#ifdef FREE_BEFORE_COMMIT
        atomic { forget() }
#else
        skip
#endif
     :: atomic { losses < LOST -> losses++ };           /* the commit happens, its answer is lost */
        apply();
#ifdef FREE_BEFORE_COMMIT
        atomic { forget() }
#else
        skip
#endif
     :: apply();
        atomic { forget() }
     fi
  /* kill -9: memory is gone; the rescuer gives back what the session holds, and another runs it again */
  :: atomic { crashes < CRASHES ->
       crashes++;
       i = 0;
       do
       :: i < RUNS -> pending[i] = false; running[i] = held[i]; i++
       :: else -> break
       od }
  :: !running[0] && !running[1] && !pending[0] && !pending[1] -> break
  od;
  assert(recorded[0] == 1 && recorded[1] == 1)
}
