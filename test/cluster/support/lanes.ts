/**
 * Another host on this machine: a network namespace with a lane (a pair of veth interfaces) to each store.
 * What runs in it (`under`) reaches a store by the address of its lane alone. A lane can be cut, so that
 * packets are lost in both directions and nobody is told, and healed. It needs root on Linux, and `ip`.
 */
import { spawnSync } from 'node:child_process'

export interface Lanes<Name extends string> {
  /** The command under which a process is on the other host. */
  readonly under: readonly string[]
  /** The address of this side, by the name of the lane. */
  readonly addresses: Readonly<Record<Name, string>>
  readonly cut: (name: Name) => void
  readonly heal: (name: Name) => void
  readonly remove: () => void
}

/** A hardware address that nobody has: what is sent to it is lost. */
const nobody = '02:00:00:00:de:ad'

/** Or the reason why that is not possible here. */
export function layLanes<const Name extends string>(names: readonly Name[]): Lanes<Name> | string {
  if (process.platform !== 'linux' || process.getuid?.() !== 0) return 'cutting a network needs root on Linux'
  const space = `belfry-${process.pid}`
  const inside = ['ip', 'netns', 'exec', space]
  const made = run(['ip', 'netns', 'add', space])
  if (made !== undefined) return `a network namespace cannot be made here: ${made}`
  must([...inside, 'ip', 'link', 'set', 'lo', 'up'])
  const net = `10.${64 + ((process.pid >> 8) & 63)}.${process.pid & 255}`
  const addresses = {} as Record<Name, string>
  const lanes = new Map<Name, { device: string; here: string; there: string }>()
  for (const [index, name] of names.entries()) {
    const device = `bf${process.pid}n${index}`
    const [here, there] = [`${net}.${index * 4 + 1}`, `${net}.${index * 4 + 2}`]
    must(['ip', 'link', 'add', device, 'type', 'veth', 'peer', 'name', device, 'netns', space])
    must(['ip', 'address', 'add', `${here}/30`, 'dev', device])
    must(['ip', 'link', 'set', device, 'up'])
    must([...inside, 'ip', 'address', 'add', `${there}/30`, 'dev', device])
    must([...inside, 'ip', 'link', 'set', device, 'up'])
    addresses[name] = here
    lanes.set(name, { device, here, there })
  }
  const laneOf = (name: Name) => {
    const lane = lanes.get(name)
    if (lane === undefined) throw new Error(`there is no lane to ${name}`)
    return lane
  }
  return {
    under: inside,
    addresses,
    cut(name) {
      const { device, here, there } = laneOf(name)
      const lost = ['dev', device, 'lladdr', nobody, 'nud', 'permanent']
      must([...inside, 'ip', 'neighbour', 'replace', here, ...lost])
      must(['ip', 'neighbour', 'replace', there, ...lost])
    },
    heal(name) {
      const { device, here, there } = laneOf(name)
      must([...inside, 'ip', 'neighbour', 'delete', here, 'dev', device])
      must(['ip', 'neighbour', 'delete', there, 'dev', device])
    },
    // with it go its ends of the lanes, and so both ends
    remove: () => must(['ip', 'netns', 'delete', space]),
  }
}

/** What went wrong, if anything. */
function run(command: readonly string[]): string | undefined {
  const [program = '', ...args] = command
  const { status, stderr, error } = spawnSync(program, args, { encoding: 'utf8' })
  return status === 0 ? undefined : stderr?.trim() || (error?.message ?? `exit ${status}`)
}

function must(command: readonly string[]): void {
  const fault = run(command)
  if (fault !== undefined) throw new Error(`${command.join(' ')}: ${fault}`)
}
