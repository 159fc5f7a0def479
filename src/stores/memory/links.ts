import type { Link, Links } from '../ledger/parenthood.js'

export class MemoryLinks implements Links {
  readonly #byChild = new Map<string, Link>()
  #links: Link[] = []
  #sorted = true

  get size(): number {
    return this.#byChild.size
  }

  get(child: string): Link | undefined {
    return this.#byChild.get(child)
  }

  add(link: Link): void {
    this.#sorted &&= link.child > (this.#links.at(-1)?.child ?? '')
    this.#links.push(link)
    this.#byChild.set(link.child, link)
  }

  forgetFans(): void {
    this.#links = this.#links.filter(({ fan }) => fan === undefined)
    this.#byChild.clear()
    for (const link of this.#links) this.#byChild.set(link.child, link)
  }

  after(child: string, count: number): readonly Link[] {
    if (!this.#sorted) this.#links.sort((a, b) => (a.child < b.child ? -1 : 1))
    this.#sorted = true
    const from = firstAfter(this.#links, child)
    return this.#links.slice(from, from + count)
  }
}

function firstAfter(links: readonly Link[], child: string): number {
  let [low, high] = [0, links.length]
  while (low < high) {
    const middle = (low + high) >> 1
    if ((links[middle] as Link).child <= child) low = middle + 1
    else high = middle
  }
  return low
}
