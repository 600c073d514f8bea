//! Interned strings of the fleet: label keys and values, providers, regions and zones. Each distinct string has a
//! number, its symbol.

use std::collections::BTreeMap;
use std::sync::Arc;

/// The number of an interned string. 0 means that there is no string.
pub(crate) type Symbol = u32;

/// The symbol of an absent string.
pub(crate) const NONE: Symbol = 0;

/// The number of shards in [`Symbols`]. Interning a new string copies one shard, so shards must be small.
const SHARDS: usize = 64;

/// The symbols of all strings in a snapshot, keyed by string. Shards make clones and changes cheap.
#[derive(Clone, Debug)]
pub(crate) struct Symbols {
    shards: Vec<Arc<BTreeMap<Arc<str>, Symbol>>>,
}

impl Symbols {
    fn new() -> Self {
        Self {
            shards: vec![Arc::default(); SHARDS],
        }
    }

    /// Returns the symbol of a string, or `None` if no cluster has the string.
    pub(crate) fn get(&self, text: &str) -> Option<Symbol> {
        self.shards.get(shard_of(text))?.get(text).copied()
    }

    /// Returns the symbols of all strings that satisfy a predicate, in ascending order.
    pub(crate) fn satisfying(&self, predicate: impl Fn(&str) -> bool) -> Vec<Symbol> {
        let mut symbols: Vec<Symbol> = self
            .shards
            .iter()
            .flat_map(|shard| shard.iter())
            .filter(|(text, _)| predicate(text))
            .map(|(_, &symbol)| symbol)
            .collect();
        symbols.sort_unstable();
        symbols
    }
}

fn shard_of(text: &str) -> usize {
    // FNV-1a is deterministic across runs. Its distribution is good enough for shards.
    let hash = text.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    (hash >> 32) as usize % SHARDS
}

/// The symbols of a fleet with their reference counts. A symbol is freed when its last use is released.
#[derive(Clone, Debug)]
pub(crate) struct SymbolTable {
    symbols: Symbols,
    texts: Vec<Option<Arc<str>>>,
    uses: Vec<u32>,
    free: Vec<Symbol>,
}

impl SymbolTable {
    pub(crate) fn new() -> Self {
        Self {
            symbols: Symbols::new(),
            // The first entry belongs to `NONE`.
            texts: vec![None],
            uses: vec![0],
            free: Vec::new(),
        }
    }

    /// Returns the symbols of all strings that are in use.
    pub(crate) fn symbols(&self) -> &Symbols {
        &self.symbols
    }

    /// Interns a string and adds one use. Returns the symbol and the shared string.
    pub(crate) fn acquire(&mut self, text: &str) -> (Symbol, Arc<str>) {
        if let Some(symbol) = self.symbols.get(text)
            && let Some(Some(shared)) = self.texts.get(symbol as usize)
        {
            let shared = Arc::clone(shared);
            if let Some(uses) = self.uses.get_mut(symbol as usize) {
                *uses += 1;
            }
            return (symbol, shared);
        }
        let shared: Arc<str> = text.into();
        let symbol = if let Some(symbol) = self.free.pop() {
            self.texts[symbol as usize] = Some(Arc::clone(&shared));
            self.uses[symbol as usize] = 1;
            symbol
        } else {
            self.texts.push(Some(Arc::clone(&shared)));
            self.uses.push(1);
            Symbol::try_from(self.texts.len() - 1).unwrap_or(Symbol::MAX)
        };
        Arc::make_mut(&mut self.symbols.shards[shard_of(text)]).insert(Arc::clone(&shared), symbol);
        (symbol, shared)
    }

    /// Releases one use of a symbol. Frees the symbol if this was the last use.
    pub(crate) fn release(&mut self, symbol: Symbol) {
        let index = symbol as usize;
        let Some(uses) = self.uses.get_mut(index).filter(|uses| **uses > 0) else {
            return;
        };
        *uses -= 1;
        if *uses == 0
            && let Some(text) = self.texts[index].take()
        {
            Arc::make_mut(&mut self.symbols.shards[shard_of(&text)]).remove(&text);
            self.free.push(symbol);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn symbols_live_until_their_last_use_ends() {
        let mut table = SymbolTable::new();
        let (prod, _) = table.acquire("prod");
        let (again, _) = table.acquire("prod");
        let (dev, _) = table.acquire("dev");
        assert_eq!(prod, again);
        assert_ne!(prod, dev);
        let before = table.symbols().clone();
        table.release(prod);
        assert_eq!(table.symbols().get("prod"), Some(prod));
        table.release(prod);
        assert_eq!(table.symbols().get("prod"), None);
        assert_eq!(
            before.get("prod"),
            Some(prod),
            "a snapshot taken earlier does not change"
        );
        let (reused, _) = table.acquire("stage");
        assert_eq!(reused, prod);
    }
}
