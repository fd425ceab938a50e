/**
 * Runs that their target took over (it answered 202 and reports later). Such a run is `running`, and no
 * worker holds it: in the place of a worker's session stands this one, which is none, never ends, and is
 * known to the rescuer.
 */
export const parkedSession = 'ffffffff-ffff-8fff-bfff-ffffffffffff'
