/**
 * How the place of a run in the fair order came about, told from its tag (domain/fair-queue.ts): how far it
 * lies before the service, and what of that its priority does. Pure.
 */
import { placesPerPriority } from '../fair-queue.ts'

export interface Placed {
  readonly tag: number
  /** How far the service has come. */
  readonly virtualTime: number
  readonly weight: number
  readonly priority: number
}

/**
 * Places that the priority moves a run by, as seen from where the service stands now; positive: earlier. A
 * high priority is worth less the nearer the turn of the run is, so it never gets before the service.
 */
export function priorityEffect({ tag, virtualTime, weight, priority }: Placed): number {
  const step = 1 / weight
  const offset = Math.abs(priority) * placesPerPriority * step
  if (priority <= 0) return offset === 0 ? 0 : -Math.min(offset, Math.max(0, tag - virtualTime)) * weight
  const moved = Math.max(0, tag - virtualTime - step)
  const lead = (moved + Math.sqrt(moved * moved + 4 * moved * offset)) / 2
  return (lead - moved) * weight
}

export function orderWords(placed: Placed, place: number): string {
  const ahead = Math.max(0, (placed.tag - placed.virtualTime) * placed.weight)
  const turn = place === 1 ? 'It is next of this tenant' : `${place - 1} of this tenant start before it`
  const fair = `about ${Math.round(ahead)} turns from where the queue stands`
  const effect = Math.round(priorityEffect(placed))
  if (placed.priority === 0 || effect === 0) return `${turn}; ${fair}.`
  const moves = effect > 0 ? `${effect} places earlier` : `${-effect} places later`
  return `${turn}; ${fair}; its priority ${placed.priority} puts it ${moves}, less as its turn comes near.`
}
