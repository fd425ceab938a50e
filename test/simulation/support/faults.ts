// What goes wrong in a simulated world, drawn from its seed: nodes that die or are stopped at a step, answers
// that are late or lost, hints that are lost, doubled or late, clocks that are wrong. From `endMs` on nothing
// goes wrong any more, so that what was promised can be asked for.
import type { Chance } from './chance.ts'
import type { SimNode } from './node.ts'
import type { Step } from './stepped-database.ts'

export type FateKind = 'well' | 'request lost' | 'answer lost' | 'late'

/** Of one step. */
export interface Fate {
  readonly kind: FateKind
  readonly requestMs: number
  readonly answerMs: number
  /** It arrives although its node has died meanwhile. */
  readonly outlives: boolean
}

export interface Strike {
  readonly node: string
  /** As by kill -9, by SIGSTOP, by SIGTERM. */
  readonly what: 'die' | 'pause' | 'stop'
  /** The so-many-th step of the node, of those whose name has this in it. */
  readonly step: number
  readonly named: string
  readonly when: 'before' | 'after'
  /** So long after that moment. */
  readonly lateMs: number
  /** How long a pause is. */
  readonly forMs: number
}

/** What the carrier of announcements does, where there is one. */
export interface CarrierPlan {
  /** Chance of a message to be lost or doubled; how late it may be. */
  readonly loss: number
  readonly doubling: number
  readonly lateMs: number
  /** Chance of a request to fail, and of one that announces to be refused. */
  readonly failing: number
  readonly refusal: number
  /** So many messages are written by somebody else. */
  readonly forged: number
  readonly away: { readonly fromMs: number; readonly untilMs: number; readonly forgets: boolean } | undefined
  /** After the beginning. */
  readonly endMs: number
}

export interface FaultPlan {
  /** Nothing goes wrong. */
  readonly calm: boolean
  readonly strikes: readonly Strike[]
  /** Chance of a step to be lost, and of being slow. */
  readonly lossy: number
  readonly slow: number
  readonly slowMs: number
  /** Chance of a hint to be lost or doubled; how late it may be. */
  readonly hintLoss: number
  readonly hintMs: number
  /** Things go wrong with it in calm worlds, too: at worst a run is a second late by that. */
  readonly carrier: CarrierPlan
  /** After the beginning. */
  readonly endMs: number
}

export interface Faults {
  readonly plan: FaultPlan
  readonly fateOf: (node: SimNode, step: Step) => Fate
  /** True: the node died, and nothing of this step matters to it any more. */
  readonly strikes: (node: SimNode, step: Step, when: Strike['when']) => boolean
  /** After how long the server sees that a connection is gone. */
  readonly goneMs: () => number
}

export function createFaults(
  plan: FaultPlan,
  chance: Chance,
  passedMs: () => number,
  struck: (node: SimNode, strike: Strike) => void,
): Faults {
  const left = new Map(plan.strikes.map((strike) => [strike, strike.step]))
  const isOver = (): boolean => passedMs() >= plan.endMs

  function latencyMs(): number {
    if (isOver() || !chance.hit(0.1)) return 0
    if (chance.hit(plan.slow)) return chance.between(0, plan.slowMs)
    return chance.between(0, 8)
  }

  function kindOf({ inside }: Step): FateKind {
    if (isOver() || !chance.hit(plan.lossy)) return 'well'
    const draw = chance.next()
    if (draw < 0.35) return 'request lost'
    return draw < 0.7 || inside ? 'answer lost' : 'late'
  }

  return {
    plan,
    fateOf(_, step) {
      const kind = step.name === 'rollback' ? 'well' : kindOf(step)
      const requestMs = kind === 'late' ? chance.between(0, 2 * plan.slowMs) : latencyMs()
      return { kind, requestMs, answerMs: latencyMs(), outlives: !step.inside && chance.hit(0.5) }
    },
    strikes(node, step, when) {
      if (isOver()) return false
      let died = false
      for (const [strike, count] of left) {
        if (strike.node !== node.name || strike.when !== when || !step.name.includes(strike.named)) continue
        left.set(strike, count - 1)
        if (count > 0) continue
        left.delete(strike)
        struck(node, strike)
        died ||= strike.what === 'die' && strike.lateMs === 0
      }
      return died
    },
    goneMs: () => (isOver() ? 0 : chance.pick([0, 0, 0, 100, 2_000])),
  }
}
