// Deterministic jitter: the same schedule and planned time always get the same delay, on every node and after
// any restart. It only ever makes a start later, and never reaches the next planned time, so the order is
// kept. The hash is part of the stored behaviour: changing it moves every jittered start.

/**
 * Milliseconds to add to a planned time: at least 0, below `windowMs`, and below the distance to the next
 * planned time (`nextNominalMs`, or null when there is none).
 */
export function jitterMs(
  scheduleId: string,
  scheduledForMs: number,
  windowMs: number,
  nextNominalMs: number | null,
): number {
  const roomMs = nextNominalMs === null ? windowMs : Math.min(windowMs, nextNominalMs - scheduledForMs)
  if (!(roomMs > 0)) return 0
  return Math.floor((hash32(`${scheduleId}@${scheduledForMs}`) / 4_294_967_296) * roomMs)
}

/** FNV-1a over the UTF-16 units, then an avalanche so that neighbouring times land far apart. */
function hash32(text: string): number {
  let hash = 0x811c9dc5
  for (let i = 0; i < text.length; i++) {
    hash = Math.imul(hash ^ text.charCodeAt(i), 0x01000193)
  }
  hash = Math.imul(hash ^ (hash >>> 16), 0x85ebca6b)
  hash = Math.imul(hash ^ (hash >>> 13), 0xc2b2ae35)
  return (hash ^ (hash >>> 16)) >>> 0
}
