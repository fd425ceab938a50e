/**
 * Just enough of tar (ustar) to hand a container two small files, and to read one back. What is read comes
 * out of a container: only the first plain file counts, its size is bounded before a byte is kept, and
 * nothing of it ever becomes a path here.
 */
import type { Readable } from 'node:stream'

const blockBytes = 512

export interface TarFile {
  readonly name: string
  readonly content: Uint8Array
  readonly mode: number
  readonly uid: number
  readonly gid: number
}

export function packTar(files: readonly TarFile[]): Uint8Array {
  const parts = files.flatMap((file) => {
    const rest = (blockBytes - (file.content.length % blockBytes)) % blockBytes
    return [header(file), file.content, new Uint8Array(rest)]
  })
  return Buffer.concat([...parts, new Uint8Array(2 * blockBytes)])
}

function header({ name, content, mode, uid, gid }: TarFile): Uint8Array {
  const block = Buffer.alloc(blockBytes)
  const octal = (value: number, at: number, length: number): void => {
    block.write(value.toString(8).padStart(length - 1, '0'), at, 'latin1')
  }
  /** Where octal digits do not suffice, as for user ids above two million: the base-256 form of GNU. */
  const number = (value: number, at: number, length: number): void => {
    if (value < 8 ** (length - 1)) return octal(value, at, length)
    block[at] = 0x80
    block.writeUIntBE(value, at + length - 6, 6)
  }
  block.write(name, 0, 100, 'utf8')
  octal(mode, 100, 8)
  number(uid, 108, 8)
  number(gid, 116, 8)
  octal(content.length, 124, 12)
  octal(0, 136, 12)
  block.write('        ', 148, 'latin1')
  block.write('0', 156, 'latin1')
  block.write('ustar\u000000', 257, 'latin1')
  const sum = block.reduce((total, byte) => total + byte, 0)
  block.write(`${sum.toString(8).padStart(6, '0')}\u0000 `, 148, 'latin1')
  return block
}

export type ReadFile =
  | { readonly kind: 'file'; readonly content: Buffer }
  | { readonly kind: 'too_large' }
  | { readonly kind: 'no_file' }

/** The content of the first entry, where that is a plain file of at most so many bytes. */
export async function readFirstFile(archive: Readable, maxBytes: number): Promise<ReadFile> {
  let head = Buffer.alloc(0)
  try {
    for await (const chunk of archive as AsyncIterable<Buffer>) {
      head = Buffer.concat([head, chunk])
      if (head.length < blockBytes) continue
      const type = String.fromCharCode(head[156] ?? 0)
      const size = Number.parseInt(head.toString('latin1', 124, 136).replaceAll('\u0000', '').trim(), 8)
      if ((type !== '0' && type !== '\u0000') || !Number.isSafeInteger(size)) return { kind: 'no_file' }
      if (size > maxBytes) return { kind: 'too_large' }
      if (head.length >= blockBytes + size)
        return { kind: 'file', content: head.subarray(blockBytes, blockBytes + size) }
    }
  } finally {
    archive.destroy()
  }
  return { kind: 'no_file' }
}
