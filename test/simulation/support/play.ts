// One simulated world from its seed to its end: who lives in it, what there is to do, what goes wrong, and
// what is found to be wrong afterwards. The same seed plays the same world.
import { openZoneSource } from '../../../packages/server/src/adapters/zones/zone-source.ts'
import { type Check, findFaults } from './check.ts'
import { type Carrier, createCarrier } from './carrier.ts'
import { type Chance, createChance } from './chance.ts'
import { watchingFires } from './fire-watch.ts'
import { createFaults, type FaultPlan, type Faults, type Strike } from './faults.ts'
import { createHintNet, type HintNet } from './hint-net.ts'
import { drawFaults, drawKind, faultsMs, goodCarrier, loadMs, shapeOf } from './kinds.ts'
import type { Shape, WorldKind } from './kinds.ts'
import { type Asked, putLoad } from './load.ts'
import { createSimNode, type SimNode } from './node.ts'
import { type Breakage, createProcess, createSeededIds, type Process, slots } from './roles.ts'
import { createTarget, type Target } from './target.ts'
import { createWorld, type World } from './world.ts'
import type { WorldDatabase } from './world-database.ts'

export interface PlayOptions {
  readonly database: WorldDatabase
  readonly seed: number
  /** Default: drawn. */
  readonly kind?: WorldKind | undefined
  readonly broken?: Breakage | undefined
  /** Besides what the seed strikes with. */
  readonly strikes?: readonly Strike[] | undefined
  /** Writes down what happens. */
  readonly traced?: boolean | undefined
}

export interface Played {
  readonly seed: number
  readonly kind: WorldKind
  readonly faults: readonly string[]
  readonly plan: FaultPlan
  readonly steps: number
  /** How much time passed in it. */
  readonly worldMs: number
  readonly trace: readonly string[]
}

/** Whoever is struck has all the time that a world of faults has. */
function struckBesides(plan: FaultPlan, strikes: readonly Strike[]): FaultPlan {
  if (strikes.length === 0) return plan
  return { ...plan, calm: false, strikes: [...plan.strikes, ...strikes], endMs: faultsMs }
}

const zones = openZoneSource()
/** How often it is asked whether all is over. */
const lookMs = 1_000

export async function play({ database, seed, broken = {}, ...options }: PlayOptions): Promise<Played> {
  const chance = createChance(seed)
  const kind = options.kind ?? drawKind(chance)
  const shape = shapeOf(kind, chance.fork('shape'))
  await database.empty()
  const world = createWorld(database, chance, options.traced === true)
  const drawn = struckBesides(drawFaults(chance.fork('faults'), shape), options.strikes ?? [])
  const plan = broken.announcing === undefined ? drawn : { ...drawn, carrier: goodCarrier }
  const crew = createCrew({ world, shape, plan, broken })
  const asked = await crew.begin()
  const quietMs = Math.max(plan.endMs, loadMs)
  const isOver = await goOnUntilOver(world, asked, quietMs, quietMs + shape.settleMs)
  const { calmLateMs } = shape
  const check: Check = {
    database,
    asked,
    calls: crew.target.calls,
    plan,
    calmLateMs,
    slots: slots * shape.nodes.filter(({ roles }) => roles.includes('worker')).length,
    fires: crew.fires,
    isOver,
  }
  const faults = await findFaults(check)
  const worldMs = world.agenda.passedMs()
  await crew.end()
  return { seed, kind, faults, plan, steps: world.steps(), worldMs, trace: world.trace }
}

/** Goes on until nothing is alive, but not beyond `untilMs`. Answers whether all came to its end. */
async function goOnUntilOver(world: World, asked: Asked, fromMs: number, untilMs: number): Promise<boolean> {
  const { agenda, database } = world
  for (let atMs = fromMs; ; atMs += lookMs) {
    while (await agenda.step(atMs));
    if (asked.isDone() && !(await isAnythingAlive(database))) return true
    if (atMs >= untilMs) return false
  }
}

async function isAnythingAlive(database: WorldDatabase): Promise<boolean> {
  const [row] = await database.sql<{ alive: boolean }>(
    `SELECT EXISTS (SELECT FROM belfry.ready) OR EXISTS (SELECT FROM belfry.delayed)
       OR EXISTS (SELECT FROM belfry.timer) OR EXISTS (SELECT FROM belfry.workflow_progress)
       OR EXISTS (SELECT FROM belfry.slot WHERE NOT freed) AS alive`,
  )
  return row?.alive !== false
}

interface CrewOptions {
  readonly world: World
  readonly shape: Shape
  readonly plan: FaultPlan
  readonly broken: Breakage
}

interface Crew {
  readonly target: Target
  readonly fires: Check['fires']
  readonly begin: () => Promise<Asked>
  readonly end: () => Promise<void>
}

/** The processes of a world; whoever dies or stops comes back after a while, as somebody else. */
function createCrew({ world, shape, plan, broken }: CrewOptions): Crew {
  const { agenda, chance } = world
  const processes = new Map<string, Process>()
  const rolesOf = new Map(shape.nodes.map(({ name, roles }) => [name, roles]))
  const fires: Check['fires'][number][] = []
  const comeBack = chance.fork('restarts')
  const clocks = chance.fork('clocks')
  let asked: Asked | undefined
  const target = createTarget(
    world,
    (jobId) => asked?.jobOf(jobId) ?? 'least',
    (node) => void faults.strikes(node, called, 'after'),
  )
  const net: HintNet = createHintNet(world, plan, chance.fork('hints'))
  let boots = 0
  let over = false

  function boot(name: string): void {
    if (over) return
    const door = watchingFires(
      world.database,
      () => process.elector?.nodeId,
      (foreignShards) => void fires.push({ node: name, atMs: agenda.nowMs(), foreignShards }),
    )
    const node = createSimNode(world, faults, { name, boot: boots++, door, ...clockOf(plan, clocks) })
    world.note(name, 'BEGINS')
    const announcements = carrier?.join(node)
    const options = { world, node, target, zones, broken, hints: net.join(node), announcements }
    const process: Process = createProcess(rolesOf.get(name) ?? [], options)
    processes.set(name, process)
    void process.start()
  }

  function strikeNow(node: SimNode, { what, forMs }: Strike): void {
    if (what === 'pause') return node.pause(forMs)
    const end = (): void => {
      node.die()
      agenda.in(comeBack.pick([0, 500, 3_000]), () => boot(node.name))
    }
    if (what === 'die') return end()
    world.note(node.name, 'IS TOLD TO STOP')
    void processes.get(node.name)?.stop().then(end)
  }

  const faults: Faults = createFaults(plan, chance.fork('fates'), agenda.passedMs, (node, strike) => {
    if (strike.lateMs === 0) strikeNow(node, strike)
    else agenda.in(strike.lateMs, () => void (node.isDead() || strikeNow(node, strike)))
  })
  const carrier: Carrier | undefined = shape.announced
    ? createCarrier(world, faults, chance.fork('carrier'))
    : undefined
  return {
    target,
    fires,
    async begin() {
      const client = createClient(world, faults, boots++)
      const ids = createSeededIds(chance.fork('ids'))
      asked = await putLoad({ world, shape, ids, zones, client, hints: net.join(client) })
      for (const { name } of shape.nodes) agenda.in(comeBack.between(0, 300), () => boot(name))
      return asked
    },
    async end() {
      over = true
      for (const { node } of processes.values()) node.die()
      // what was open is rolled back
      while (await agenda.step(agenda.passedMs() + 60_000));
    },
  }
}

const called = { name: 'call', inside: false } as const

function clockOf({ calm }: FaultPlan, chance: Chance): { readonly skewMs: number; readonly rate: number } {
  if (calm) return { skewMs: 0, rate: 1 }
  const skewMs = chance.pick([0, 0, 1_500, -3_600_000, 3_600_000])
  return { skewMs, rate: chance.pick([1, 1, 1.001, 0.999]) }
}

/** Who asks for the load; nothing goes wrong with it. */
function createClient(world: World, faults: Faults, boot: number): SimNode {
  return createSimNode(world, noFaults(faults), { name: 'client', boot, skewMs: 0, rate: 1 })
}

function noFaults(faults: Faults): Faults {
  return {
    ...faults,
    strikes: () => false,
    fateOf: () => ({ kind: 'well', requestMs: 0, answerMs: 0, outlives: true }),
  }
}
