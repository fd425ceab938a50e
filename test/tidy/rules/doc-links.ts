// Links in Markdown resolve: relative ones to a file or folder of the repository, `#anchors` to a heading of
// the target. Links to other sites are not followed, because a test must not depend on them.
import { posix } from 'node:path'
import { type Rule, type SourceFile, type Violation, violation } from '../lib/source-file.ts'

const link = /!?\[[^\]]*\]\(\s*<?([^)\s>]+)>?(?:\s+"[^"]*")?\s*\)|^\[[^\]]+\]:\s*(\S+)/gm
const otherSite = /^(?:[a-z][a-z0-9+.-]*:|\/\/)/i

/** Code holds examples, not links; its characters are blanked so that offsets stay true. */
function withoutCode(text: string): string {
  const blank = (match: string) => match.replace(/[^\n]/g, ' ')
  return text.replace(/^(```+|~~~+)[\s\S]*?^\1/gm, blank).replace(/`[^`\n]*`/g, blank)
}

/** The anchors that common Markdown hosts give to headings, with -1, -2 for repeated ones. */
function anchorsOf(file: SourceFile): Set<string> {
  const seen = new Map<string, number>()
  const anchors = new Set<string>()
  const text = file.text.replace(/^(```+|~~~+)[\s\S]*?^\1/gm, '')
  for (const [, heading = ''] of text.matchAll(/^#{1,6}\s+(.+?)\s*#*$/gm)) {
    const plain = heading.replace(/\[([^\]]*)\]\([^)]*\)/g, '$1').replace(/[`*]/g, '')
    const slug = plain
      .toLowerCase()
      .replace(/[^\p{L}\p{N}\s_-]/gu, '')
      .replace(/\s/g, '-')
    const count = seen.get(slug) ?? 0
    seen.set(slug, count + 1)
    anchors.add(count === 0 ? slug : `${slug}-${count}`)
  }
  for (const [, id = ''] of text.matchAll(/<a\s+(?:id|name)="([^"]+)"/g)) anchors.add(id)
  return anchors
}

function brokenLink(file: SourceFile, target: string, files: readonly SourceFile[]): string | undefined {
  const [path = '', anchor] = target.split('#')
  const resolved =
    path === '' ? file.path : posix.join(posix.dirname(file.path), decodeURI(path)).replace(/\/$/, '')
  const found = files.find((candidate) => candidate.path === resolved)
  const isFolder = resolved === '.' || files.some((candidate) => candidate.path.startsWith(`${resolved}/`))
  if (found === undefined && !isFolder) return `${target} leads to no file of the repository`
  if (anchor === undefined || anchor === '' || found === undefined || !found.path.endsWith('.md'))
    return undefined
  return anchorsOf(found).has(anchor.toLowerCase()) ? undefined : `${target}: no such heading in ${resolved}`
}

export const docLinks: Rule = {
  name: 'links in Markdown resolve',
  check: (files) =>
    files
      .filter((file) => file.path.endsWith('.md'))
      .flatMap((file) =>
        [...withoutCode(file.text).matchAll(link)].flatMap((match): Violation[] => {
          const target = match[1] ?? match[2] ?? ''
          if (target === '' || otherSite.test(target)) return []
          const message = brokenLink(file, target, files)
          return message === undefined ? [] : [violation(file, match.index, message)]
        }),
      ),
}
