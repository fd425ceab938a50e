/**
 * The image of the process that holds the network of a run: one file of some 200 bytes, made here, so that
 * nothing has to be fetched. A network of a container lives as long as some process in it: this one does
 * nothing but wait, so that the way out is open before the job begins.
 *
 * The file is the smallest program that Linux takes: a 64-byte ELF header, one 56-byte program header (load
 * the whole file, read and execute), and a few instructions that say "wait for a signal" for ever.
 */
import { packTar } from './tar.ts'
import { type EngineClient, EngineError } from './engine-client.ts'

/** Changes whenever the image does. */
export const holderImage = 'localhost/belfry-network-holder:1'

/** Of its process, as the machine shows it. */
export const holderCommand = '/hold\u0000'

interface Machine {
  /** `e_machine` of ELF. */
  readonly number: number
  readonly code: readonly number[]
}

const machines: Readonly<Record<string, Machine>> = {
  // mov eax, 34 (pause); syscall; jmp back
  x64: { number: 62, code: [0xb8, 0x22, 0, 0, 0, 0x0f, 0x05, 0xeb, 0xf7] },
  // x0 = x1 = x2 = x3 = x4 = 0; x8 = 73 (ppoll without files or limit); svc 0; b back to the first
  arm64: {
    number: 183,
    code: [
      [0xd2800000, 0xd2800001, 0xd2800002, 0xd2800003, 0xd2800004, 0xd2800928, 0xd4000001, 0x17fffff9],
    ].flatMap((words) =>
      words.flatMap((word) => [word & 255, (word >>> 8) & 255, (word >>> 16) & 255, word >>> 24]),
    ),
  },
}

const baseAddress = 0x400000
const headBytes = 64 + 56

/** Undefined: no program for this kind of processor is known here. */
export function holderProgram(architecture: string): Uint8Array | undefined {
  const machine = machines[architecture]
  if (machine === undefined) return undefined
  const size = headBytes + machine.code.length
  const file = Buffer.alloc(size)
  // e_ident: magic, 64-bit, little endian, version 1
  file.set([0x7f, 0x45, 0x4c, 0x46, 2, 1, 1])
  file.writeUInt16LE(2, 16) // executable
  file.writeUInt16LE(machine.number, 18)
  file.writeUInt32LE(1, 20)
  file.writeBigUInt64LE(BigInt(baseAddress + headBytes), 24) // where it begins
  file.writeBigUInt64LE(64n, 32) // program header
  file.writeUInt16LE(64, 52)
  file.writeUInt16LE(56, 54)
  file.writeUInt16LE(1, 56)
  file.writeUInt32LE(1, 64) // PT_LOAD
  file.writeUInt32LE(5, 68) // read, execute
  file.writeBigUInt64LE(BigInt(baseAddress), 80)
  file.writeBigUInt64LE(BigInt(baseAddress), 88)
  file.writeBigUInt64LE(BigInt(size), 96)
  file.writeBigUInt64LE(BigInt(size), 104)
  file.writeBigUInt64LE(0x1000n, 112)
  file.set(machine.code, headBytes)
  return file
}

/** Puts the image into an engine that does not have it. */
export async function ensureHolderImage(engine: EngineClient, architecture: string): Promise<void> {
  try {
    await engine.call('GET', `/images/${holderImage}/json`)
    return
  } catch (error) {
    if (!(error instanceof EngineError) || error.status !== 404) throw error
  }
  const program = holderProgram(architecture)
  if (program === undefined)
    throw new EngineError(`There is no network holder for processors of the kind ${architecture}.`, 400)
  const tar = packTar([{ name: 'hold', content: program, mode: 0o555, uid: 0, gid: 0 }])
  const [repo, tag = '1'] = holderImage.split(/:(?=[^:]*$)/)
  const made = await engine.call('POST', '/images/create', {
    query: { fromSrc: '-', repo: repo ?? '', tag, changes: 'ENTRYPOINT ["/hold"]' },
    tar,
  })
  // Podman takes no tag here
  const id = typeof made === 'object' && made !== null && 'status' in made ? String(made.status) : undefined
  if (id === undefined)
    throw new EngineError('The engine imported the image of the network holder and did not say which.')
  await engine.call('POST', `/images/${id.replace(/^sha256:/, '')}/tag`, { query: { repo: repo ?? '', tag } })
}
