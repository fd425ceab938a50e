// Deterministic delays of planned times: the same on every node and after any restart. They only ever make a
// start later, and never reach the next planned time, so the order is kept. The hash is part of the stored
// behaviour: changing it moves every delayed start.

/**
 * Milliseconds to add to a planned time: at least 0, below `windowMs`, and below the distance to the next
 * planned time (`nextNominalMs`, or null when there is none). Another one at each planned time.
 */
export function jitterMs(
  scheduleId: string,
  scheduledForMs: number,
  windowMs: number,
  nextNominalMs: number | null,
): number {
  const roomMs = nextNominalMs === null ? windowMs : Math.min(windowMs, nextNominalMs - scheduledForMs)
  if (!(roomMs > 0)) return 0
  return shareOf(`${scheduleId}@${scheduledForMs}`, roomMs)
}

/**
 * The delay of a schedule within its flexible window: the same at each of its planned times, so that they
 * stay as far apart as they are; at least 0 and below `windowMs`. Only where the next planned time is nearer
 * is it cut, to just before that.
 */
export function flexibleDelayMs(
  scheduleId: string,
  scheduledForMs: number,
  windowMs: number,
  nextNominalMs: number | null,
): number {
  if (!(windowMs > 0)) return 0
  const delayMs = shareOf(scheduleId, windowMs)
  return nextNominalMs === null ? delayMs : Math.min(delayMs, nextNominalMs - scheduledForMs - 1)
}

/** A whole number from 0 to below `roomMs`, drawn from the text. */
function shareOf(text: string, roomMs: number): number {
  return Math.floor((hash32(text) / 4_294_967_296) * roomMs)
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
