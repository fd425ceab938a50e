// Hints between the nodes of a simulated world: heard at once in the node that gives them, elsewhere later,
// twice, in another order, or never.
import type { Hint, Hints } from '../../../packages/server/src/ports/hints.ts'
import type { Chance } from './chance.ts'
import type { FaultPlan } from './faults.ts'
import type { SimNode } from './node.ts'
import type { World } from './world.ts'

export interface HintNet {
  readonly join: (node: SimNode) => Hints
}

/** Of a hint that goes well. */
const usualMs = 5

export function createHintNet(world: World, plan: FaultPlan, chance: Chance): HintNet {
  const members = new Map<SimNode, Set<(hint: Hint) => void>>()

  function tell(node: SimNode, hint: Hint): void {
    for (const listener of members.get(node) ?? []) listener(hint)
  }

  function carry(to: SimNode, hint: Hint): void {
    const calm = world.agenda.passedMs() >= plan.endMs
    if (!calm && chance.hit(plan.hintLoss)) return
    const copies = !calm && chance.hit(plan.hintLoss) ? 2 : 1
    for (let copy = 0; copy < copies; copy++) {
      const lateMs = chance.between(0, calm ? usualMs : Math.max(usualMs, plan.hintMs))
      to.in(lateMs, () => tell(to, hint))
    }
  }

  return {
    join(node) {
      const listeners = new Set<(hint: Hint) => void>()
      members.set(node, listeners)
      return {
        publish(hint) {
          tell(node, hint)
          for (const other of members.keys()) {
            if (other.isDead()) members.delete(other)
            else if (other !== node) carry(other, hint)
          }
        },
        subscribe(listener) {
          listeners.add(listener)
          return () => listeners.delete(listener)
        },
      }
    },
  }
}
